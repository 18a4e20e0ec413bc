package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"runledger/internal/events"
	"runledger/internal/stream"

	"github.com/nats-io/nats.go"
)

// LoadConfig says what the load sends, and where.
type LoadConfig struct {
	URL           string // of NATS
	ArgumentBytes int
	ResultBytes   int
}

// RunLoad stands for all agents and executors until the context ends. It takes
// its orders over NATS.
//
// One goroutine does everything: it takes all that the connection brings from
// one channel, so that nothing needs a lock, and a call costs no goroutine and
// hardly an allocation. The load shares the machine with what it measures.
func RunLoad(ctx context.Context, cfg LoadConfig) error {
	l, err := newLoad(cfg)
	if err != nil {
		return err
	}
	defer l.nc.Close()
	for {
		select {
		case <-ctx.Done():
			return nil
		case m := <-l.orders:
			answer, err := l.obey(ctx, m.Data)
			if err != nil {
				answer.Error = err.Error()
			}
			data, err := json.Marshal(answer)
			if err != nil {
				return err
			}
			if err := m.Respond(data); err != nil {
				return fmt.Errorf("answer an order: %w", err)
			}
		}
	}
}

// load is the state of the process.
type load struct {
	nc       *nats.Conn
	subjects events.Subjects
	orders   chan *nats.Msg
	in       chan *nats.Msg // facts, dispatches and answers of streams
	pull     *puller
	inbox    string // answers to claims come to <inbox>.c.<call>, to others to <inbox>.a

	intent     intentWriter
	resultHead *patch
	resultTail []byte
	scratch    []byte

	runs    int // open
	started int // of them, known to have started
	next    uint64
	calls   []call // a ring by call number
}

// call is one call under way.
type call struct {
	number    uint64 // 0: none
	run       int
	scheduled time.Time
	resulted  time.Time
	dispatch  string // id
	ack       string // where the dispatch is acknowledged
	measured  bool
	play      *playing
}

// ring is how many calls may be under way: more than any backlog that a phase
// of sensible length builds up.
const ring = 1 << 18

func newLoad(cfg LoadConfig) (*load, error) {
	nc, err := nats.Connect(cfg.URL, nats.Name("bench load"), nats.NoReconnect())
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	subjects, err := events.NewSubjects(events.DefaultPrefix)
	if err != nil {
		return nil, err
	}
	head, tail := resultData(cfg.ResultBytes)
	l := &load{
		nc: nc, subjects: subjects, orders: make(chan *nats.Msg, 1), in: make(chan *nats.Msg, ring),
		inbox: nats.NewInbox(), intent: newIntentWriter(cfg.ArgumentBytes),
		resultHead: newPatch(head), resultTail: tail, calls: make([]call, ring),
	}
	l.pull = newPuller(nc, stream.StreamDispatch, "executor-"+executorName, l.inbox+".d", 1000)
	for _, subject := range []string{subjects.Republished(agentName), l.inbox + ".*", l.inbox + ".c.*"} {
		if _, err := nc.ChanSubscribe(subject, l.in); err != nil {
			return nil, fmt.Errorf("subscribe to %s: %w", subject, err)
		}
	}
	if err := l.pull.ask(); err != nil {
		return nil, err
	}
	if _, err := nc.ChanSubscribe(controlSubject, l.orders); err != nil {
		return nil, fmt.Errorf("subscribe to %s: %w", controlSubject, err)
	}
	return l, nc.Flush()
}

// obey carries an order out.
func (l *load) obey(ctx context.Context, data []byte) (report, error) {
	var o order
	if err := json.Unmarshal(data, &o); err != nil {
		return report{}, fmt.Errorf("order: %w", err)
	}
	switch {
	case o.Open != nil:
		return report{}, l.open(ctx, o.Open.Runs)
	case o.Play != nil:
		p, err := l.carryOut(ctx, *o.Play)
		return report{play: p}, err
	}
	return report{}, nil // it only wants to know that somebody is there
}

const (
	openAtOnce  = 500
	openTimeout = 5 * time.Minute
)

// open starts runs until there are as many as asked for.
func (l *load) open(ctx context.Context, runs int) error {
	timeout := time.NewTimer(openTimeout)
	defer timeout.Stop()
	for l.started < runs {
		for l.runs < runs && l.runs-l.started < openAtOnce {
			name := runName(l.runs)
			msg := intentMsg(l.subjects.Agent(agentName, name, events.VerbRunStart), events.VerbRunStart, name, "/agents/"+agentName)
			msg.Data, msg.Reply = runStartData(name, time.Now()), l.inbox+".a"
			if err := l.nc.PublishMsg(msg); err != nil {
				return err
			}
			l.runs++
		}
		select {
		case m := <-l.in:
			if err := l.take(m); err != nil {
				return err
			}
		case <-timeout.C:
			return fmt.Errorf("%d of %s have started after %v", l.started, plural(runs, "run"), openTimeout)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// take handles one message, whatever it is.
func (l *load) take(m *nats.Msg) error {
	if rest, ok := strings.CutPrefix(m.Subject, l.inbox); ok {
		if number, ok := strings.CutPrefix(rest, ".c."); ok {
			return l.claimed(m.Data, number)
		}
		return l.accepted(m)
	}
	if strings.HasPrefix(m.Reply, "$JS.ACK.") {
		return l.dispatched(m)
	}
	switch kind := kindOf(m.Subject); kind {
	case events.KindToolReserved:
		return nil // read back
	case events.KindToolSettled:
		return l.settled(m)
	case events.KindRunStarted:
		l.started++
		return nil
	default:
		return fmt.Errorf("fact %s is not expected here: %.500s", kind, m.Data)
	}
}

// kindOf gives the last two tokens of a fact's subject, of which there are six,
// or, outside of any history, seven.
func kindOf(subject string) events.Kind {
	tokens := strings.SplitN(subject, ".", 7) // harness v1 run <agent> <run> <kind>, and a key
	if len(tokens) < 7 {
		return ""
	}
	second, _, _ := strings.Cut(tokens[6], ".")
	return events.Kind(tokens[5] + "." + second)
}

// accepted takes a stream's answer to an intent or a result, or what the server
// says of the pull.
func (l *load) accepted(m *nats.Msg) error {
	if len(m.Data) == 0 {
		return l.pull.took(m)
	}
	_, err := ackSequence(m.Data)
	return err
}

// carryOut plays an order to its end.
func (l *load) carryOut(ctx context.Context, o playOrder) (play, error) {
	if o.ActiveRuns < 1 || o.FirstRun+o.ActiveRuns > l.runs {
		return play{}, fmt.Errorf("play: want 1 to %d active runs, got %d from %d on", l.runs, o.ActiveRuns, o.FirstRun)
	}
	if (o.Rate > 0) == (o.Window > 0) {
		return play{}, errors.New("play: want either a rate or a window")
	}
	return newPlaying(o, l).run(ctx)
}
