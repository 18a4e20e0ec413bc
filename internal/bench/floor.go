package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"runledger/internal/events"
	"runledger/internal/stream"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"golang.org/x/sync/errgroup"
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
//	one pipeline to Redis → dispatches created → their acks → positions moved → their acks
//
// where positions move at most as often as the processor's.
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
	timer *time.Timer // for when a position is to move
	in    chan *nats.Msg
	acks  chan *nats.Msg
	inbox string // acks come to <inbox>.<place in the batch>

	start, reserve, settle floorStep
	positions              *positions

	runs  map[string]*floorRun
	batch []floorEvent
	wave  int // number of the wave, over all batches

	now, later []int // places in the batch: of this wave, of the ones after
}

// newFloor gives each loop connections of its own.
func newFloor(ctx context.Context, cfg FloorConfig, r recipe, number int) (*floor, error) {
	nc, err := nats.Connect(cfg.URL, nats.Name("bench floor"), nats.NoReconnect())
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	f := &floor{
		nc: nc, in: make(chan *nats.Msg, 4*floorBatch), acks: make(chan *nats.Msg, 4*floorBatch),
		inbox: nats.NewInbox(), runs: make(map[string]*floorRun), wave: 1, timer: time.NewTimer(time.Hour),
		start: r.newStep(r.Start), reserve: r.newStep(r.Reserve), settle: r.newStep(r.Settle),
		positions: newPositions(r.newMessage(r.Lease)),
		redis: redis.NewClient(&redis.Options{
			Addr: cfg.Redis, Protocol: 2, MaxRetries: -1, DisableIdentity: true,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		}),
	}
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
	f.pull = newPuller(f.nc, stream.StreamIn, consumer, messages, floorBatch)
	return f.pull.ask()
}

func (f *floor) close() {
	f.timer.Stop()
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
