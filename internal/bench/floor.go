package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"golang.org/x/sync/errgroup"

	"runledger/internal/events"
)

// FloorConfig says what the floor plays, and where.
type FloorConfig struct {
	URL    string // of NATS
	Redis  string // host:port
	Recipe string // file
	Loops  int    // that share the partitions; 0 is what was fastest when it was tried
}

const (
	partitions   = 16
	defaultLoops = 4
	// floorBatch is what a loop takes at once, at most.
	floorBatch = 512
)

// RunFloor is the bare loop, until the context ends. For each batch it does what
// the processor does, in the same order, and nothing else:
//
//	facts published, each fenced by the last of its run → their acks →
//	one pipeline to Redis → dispatches created → their acks → position moved → its ack
//
// It checks nothing, decides nothing, and keeps of a run only its last sequence.
// Two events of one run in a batch are answered one after the other, as the
// fence demands. Several loops overlap, so that one works while others wait.
func RunFloor(ctx context.Context, cfg FloorConfig) error {
	recipe, err := readRecipe(cfg.Recipe)
	if err != nil {
		return err
	}
	if cfg.Loops == 0 {
		cfg.Loops = defaultLoops
	}
	if cfg.Loops < 1 || cfg.Loops > partitions {
		return fmt.Errorf("floor: Loops is %d, want 1 to %d", cfg.Loops, partitions)
	}
	group, ctx := errgroup.WithContext(ctx)
	for i := range cfg.Loops {
		group.Go(func() error {
			f, err := newFloor(ctx, cfg, recipe, i)
			if err != nil {
				return err
			}
			defer f.close()
			return f.run(ctx)
		})
	}
	if err := group.Wait(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// floor is one loop.
type floor struct {
	nc    *nats.Conn
	redis *redis.Client
	pull  *puller
	in    chan *nats.Msg
	acks  chan *nats.Msg
	inbox string // acks come to <inbox>.<place in the batch>

	start, reserve, settle floorStep
	lease                  *messageTemplate
	leaseAt                uint64 // its last sequence

	runs  map[string]*floorRun
	batch []floorEvent
	wave  int // number of the wave, over all batches

	now, later []int // places in the batch: of this wave, of the ones after
}

// floorRun is what must be known of a run.
type floorRun struct {
	last  uint64 // stream sequence of its last fact
	facts uint64
	wave  int // in which it had a fact last
}

type floorStep struct {
	fact     *messageTemplate
	writes   []commandTemplate
	dispatch *messageTemplate
}

// floorEvent is an event of a batch and what it leads to.
type floorEvent struct {
	step   *floorStep
	values values
	run    *floorRun
}

func (r Recipe) newStep(s Step) floorStep {
	f := floorStep{fact: r.newMessage(s.Fact), writes: r.newCommands(s.Writes)}
	if s.Dispatch != nil {
		f.dispatch = r.newMessage(*s.Dispatch)
	}
	return f
}

// newFloor gives each loop connections of its own.
func newFloor(ctx context.Context, cfg FloorConfig, r Recipe, number int) (*floor, error) {
	nc, err := nats.Connect(cfg.URL, nats.Name("bench floor"), nats.NoReconnect())
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	f := &floor{
		nc: nc, in: make(chan *nats.Msg, 4*floorBatch), acks: make(chan *nats.Msg, 4*floorBatch),
		inbox: nats.NewInbox(), runs: make(map[string]*floorRun), wave: 1,
		start: r.newStep(r.Start), reserve: r.newStep(r.Reserve), settle: r.newStep(r.Settle), lease: r.newMessage(r.Lease),
		redis: redis.NewClient(&redis.Options{
			Addr: cfg.Redis, Protocol: 2, MaxRetries: -1, DisableIdentity: true,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		}),
	}
	f.lease.subject = template{{"$KV.PARTITIONS.lease." + strconv.Itoa(number), slotNone}}
	var filters []string
	for p := number; p < partitions; p += cfg.Loops {
		filters = append(filters, events.DefaultPrefix+".part."+strconv.Itoa(p)+".>")
	}
	if cfg.Loops == 1 {
		filters = []string{events.DefaultPrefix + ".part.>"}
	}
	if err := f.subscribe(ctx, filters); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

func (f *floor) subscribe(ctx context.Context, filters []string) error {
	js, err := jetstream.New(f.nc)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	consumer, err := newReader(ctx, js, filters)
	if err != nil {
		return err
	}
	if _, err := f.nc.ChanSubscribe(f.inbox+".*", f.acks); err != nil {
		return err
	}
	messages := nats.NewInbox()
	if _, err := f.nc.ChanSubscribe(messages, f.in); err != nil {
		return err
	}
	f.pull = newPuller(f.nc, "IN", consumer, messages, floorBatch)
	return f.pull.ask()
}

func (f *floor) close() {
	f.nc.Close()
	_ = f.redis.Close()
}

func (f *floor) run(ctx context.Context) error {
	for {
		if err := f.read(ctx); err != nil {
			return err
		}
		if err := f.commit(ctx); err != nil {
			return err
		}
		if err := f.project(ctx); err != nil {
			return err
		}
		if err := f.dispatch(ctx); err != nil {
			return err
		}
		if err := f.move(ctx); err != nil {
			return err
		}
	}
}

// read waits for an event, and takes all that are there.
func (f *floor) read(ctx context.Context) error {
	f.batch = f.batch[:0]
	select {
	case m := <-f.in:
		if err := f.add(m); err != nil {
			return err
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	for len(f.batch) < floorBatch {
		select {
		case m := <-f.in:
			if err := f.add(m); err != nil {
				return err
			}
		default:
			return nil
		}
	}
	return nil
}

// add takes an event into the batch: the run from its subject, the call from its
// data. Other events than the load's are passed over.
func (f *floor) add(m *nats.Msg) error {
	if err := f.pull.took(m); err != nil {
		return err
	}
	// harness v1 part <n> in <role> <principal> <run> <verb>
	tokens := strings.SplitN(m.Subject, ".", 9)
	if len(tokens) < 9 {
		return nil
	}
	e := floorEvent{values: values{run: tokens[7]}}
	switch events.Verb(tokens[8]) {
	case events.VerbRunStart:
		e.step = &f.start
	case events.VerbToolCall:
		e.step = &f.reserve
	case events.VerbToolResult:
		e.step = &f.settle
	default:
		return nil
	}
	e.values.call, _ = toolCallID(m.Data)
	e.run = f.runs[e.values.run]
	if e.run == nil {
		e.run = &floorRun{}
		f.runs[e.values.run] = e.run
	}
	f.batch = append(f.batch, e)
	return nil
}

// commit publishes the facts, in waves: of each run one at a time.
func (f *floor) commit(ctx context.Context) error {
	f.now = f.now[:0]
	for i := range f.batch {
		f.now = append(f.now, i)
	}
	for len(f.now) > 0 {
		f.wave++
		wave, later := f.now[:0], f.later[:0]
		for _, i := range f.now {
			e := &f.batch[i]
			if e.run.wave == f.wave {
				later = append(later, i) // the fact before must have its sequence
				continue
			}
			e.run.wave = f.wave
			e.run.facts++
			e.values.dispatch = e.values.run + "." + strconv.FormatUint(e.run.facts, 10)
			if err := f.publish(e.step.fact, e.values, i, e.run.last); err != nil {
				return err
			}
			wave = append(wave, i)
		}
		err := f.wait(ctx, len(wave), func(place int, sequence uint64) { f.batch[place].run.last = sequence })
		if err != nil {
			return err
		}
		f.now, f.later = later, wave
	}
	return nil
}

func (f *floor) publish(t *messageTemplate, v values, place int, expect uint64) error {
	return f.nc.PublishMsg(t.with(v, f.inbox+"."+strconv.Itoa(place), expect))
}

// wait takes the acks of what was published since the last wait.
func (f *floor) wait(ctx context.Context, count int, fn func(place int, sequence uint64)) error {
	for range count {
		select {
		case m := <-f.acks:
			place, err := strconv.Atoi(m.Subject[len(f.inbox)+1:])
			if err != nil {
				return fmt.Errorf("an ack came on %s", m.Subject)
			}
			sequence, err := ackSequence(m.Data)
			if err != nil {
				return fmt.Errorf("the stream refused a message of the floor: %w", err)
			}
			fn(place, sequence)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// project sends the commands of the batch in one pipeline.
func (f *floor) project(ctx context.Context) error {
	pipe := f.redis.Pipeline()
	for i := range f.batch {
		e := &f.batch[i]
		for _, t := range e.step.writes {
			_ = pipe.Process(ctx, redis.NewCmd(ctx, t.with(e.values)...)) // only queues it
		}
	}
	if pipe.Len() == 0 {
		return nil
	}
	_, err := pipe.Exec(ctx)
	if err != nil {
		return fmt.Errorf("the commands of the floor: %w", err)
	}
	return nil
}

func (f *floor) dispatch(ctx context.Context) error {
	published := 0
	for i := range f.batch {
		if e := &f.batch[i]; e.step.dispatch != nil {
			if err := f.publish(e.step.dispatch, e.values, published, 0); err != nil {
				return err
			}
			published++
		}
	}
	return f.wait(ctx, published, func(int, uint64) {})
}

func (f *floor) move(ctx context.Context) error {
	if err := f.publish(f.lease, values{}, 0, f.leaseAt); err != nil {
		return err
	}
	return f.wait(ctx, 1, func(_ int, sequence uint64) { f.leaseAt = sequence })
}
