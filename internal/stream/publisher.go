package stream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"
	"github.com/rs/zerolog"
)

// Errors of a publish. Any other error is the server's refusal, a
// *jetstream.APIError, or the client's (nats.ErrMaxPayload, …), and means that
// nothing was stored.
var (
	// ErrStale says that the stream refused the message because its
	// expectation does not hold: something was stored in between, or was there
	// before (server errors 10071 and 10164). Nothing was stored.
	ErrStale = errors.New("expected last sequence does not hold")
	// ErrUnanswered says that no answer came: the message may have been stored,
	// or may still be stored, or not. Read the stream to find out.
	ErrUnanswered = errors.New("publish was not answered")

	errPublisherClosed = errors.New("publisher is closed")
)

// PublisherConfig says how long a publish waits.
type PublisherConfig struct {
	// AckTimeout after which a publish without an answer is ErrUnanswered;
	// default 5 s. It is noticed up to a tenth later.
	AckTimeout time.Duration
	// Log gets a line when a disconnect leaves publishes unanswered.
	Log zerolog.Logger
}

// Validate names the field that is wrong, what it got and what it wants.
func (c PublisherConfig) Validate() error {
	if c.AckTimeout != 0 && (c.AckTimeout < 50*time.Millisecond || c.AckTimeout > time.Minute) {
		return fmt.Errorf("AckTimeout: got %v, want 50ms to 1m, or 0 for 5s", c.AckTimeout)
	}
	return nil
}

// Expect is what a message demands of the stream; the zero value is nothing.
type Expect struct {
	filter   string // "" for the message's own subject
	sequence uint64
	fenced   bool
}

// ExpectNone demands nothing.
func ExpectNone() Expect { return Expect{} }

// ExpectLast demands that the last message under the filter have this stream
// sequence, 0 for none. The filter must match the message's own subject.
func ExpectLast(filter string, sequence uint64) Expect {
	return Expect{filter: filter, sequence: sequence, fenced: true}
}

// ExpectNew demands that nothing be stored on the message's own subject.
func ExpectNew() Expect { return Expect{fenced: true} }

// Publisher publishes to JetStream without waiting for the answers and without
// retries of its own.
//
// It speaks core NATS and has one subscription for all answers: the futures of
// nats.go have no timeout of their own and stay unresolved after some
// disconnects. Here every publish is resolved: by its answer, by AckTimeout, by
// a disconnect or by Close.
//
// It may be used by many goroutines. Messages that one goroutine publishes reach
// the server in that order, as far as the connection holds.
type Publisher struct {
	nc     *nats.Conn
	cfg    PublisherConfig
	inbox  string // answers come to <inbox><number in base 36>
	sub    *nats.Subscription
	status chan nats.Status
	stop   chan struct{}
	swept  sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	number   uint64
	inFlight map[uint64]*Pending
	oldest   *Pending // in order of publishing, so in order of deadline
	newest   *Pending
}

// Pending is a publish whose answer may not have come yet.
type Pending struct {
	done     chan struct{} // closed when sequence and err stand
	sequence uint64
	err      error

	// Guarded by the publisher's mutex.
	number     uint64
	deadline   time.Time
	prev, next *Pending
}

// NewPublisher makes a publisher on a connection that was made with
// ConnectionOptions; it refuses one that would send messages after a reconnect
// which were published before.
func NewPublisher(nc *nats.Conn, cfg PublisherConfig) (*Publisher, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("publisher configuration: %w", err)
	}
	if nc.Opts.ReconnectBufSize >= 0 {
		return nil, fmt.Errorf("publisher connection: got ReconnectBufSize %d, want -1: connect with stream.ConnectionOptions", nc.Opts.ReconnectBufSize)
	}
	cfg.AckTimeout = orDefault(cfg.AckTimeout, 5*time.Second)
	p := &Publisher{
		nc: nc, cfg: cfg, inbox: newInbox(nc) + ".",
		status: nc.StatusChanged(nats.DISCONNECTED, nats.RECONNECTING, nats.CLOSED),
		stop:   make(chan struct{}), inFlight: make(map[uint64]*Pending),
	}
	sub, err := nc.Subscribe(p.inbox+"*", p.answered)
	if err != nil {
		nc.RemoveStatusListener(p.status)
		return nil, fmt.Errorf("subscribe to answers: %w", err)
	}
	// An answer that the client dropped would be a publish unanswered.
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		nc.RemoveStatusListener(p.status)
		return nil, fmt.Errorf("subscribe to answers: %w", err)
	}
	p.sub = sub
	p.swept.Go(p.sweep)
	return p, nil
}

// newInbox is a subject of one's own, below the connection's inbox prefix.
func newInbox(nc *nats.Conn) string {
	if nc.Opts.InboxPrefix != "" {
		return nc.Opts.InboxPrefix + "." + nuid.Next()
	}
	return nats.NewInbox()
}

// Publish hands the message to the connection and returns at once; the
// connection sends what was handed to it together. The message and its header
// belong to the publisher from then on. Wait on what it returns, which is never
// nil, to learn what became of it.
func (p *Publisher) Publish(msg *nats.Msg, expect Expect) *Pending {
	if expect.fenced {
		if msg.Header == nil {
			msg.Header = make(nats.Header, 2)
		}
		msg.Header[headerExpectLast] = []string{strconv.FormatUint(expect.sequence, 10)}
		if expect.filter != "" {
			msg.Header[headerExpectFilter] = []string{expect.filter}
		}
	}
	pending := &Pending{done: make(chan struct{})}
	if !p.register(pending) {
		pending.err = notSent(msg.Subject, errPublisherClosed)
		close(pending.done)
		return pending
	}
	msg.Reply = p.inbox + strconv.FormatUint(pending.number, 36)
	if err := p.nc.PublishMsg(msg); err != nil {
		p.resolve(pending.number, 0, notSent(msg.Subject, err))
	}
	return pending
}

// notSent tells what is wrong with the message itself, and stays wrong, from
// what is wrong with the connection: the latter is one more answer that did not
// come, so that callers have one case for all trouble.
func notSent(subject string, err error) error {
	for _, own := range []error{nats.ErrMaxPayload, nats.ErrBadSubject, nats.ErrHeadersNotSupported, nats.ErrBadHeaderMsg} {
		if errors.Is(err, own) {
			return fmt.Errorf("publish on %s: %w", subject, err)
		}
	}
	return fmt.Errorf("%w: publish on %s: %w", ErrUnanswered, subject, err)
}

const (
	headerExpectLast   = "Nats-Expected-Last-Subject-Sequence"
	headerExpectFilter = "Nats-Expected-Last-Subject-Sequence-Subject"
)

// Wait returns the stream sequence of the stored message. Where the context
// ends first, the error is ErrUnanswered and the context's; the publish goes on,
// and Wait may be called again.
func (p *Pending) Wait(ctx context.Context) (sequence uint64, err error) {
	select {
	case <-p.done:
		return p.sequence, p.err
	default:
	}
	select {
	case <-p.done:
		return p.sequence, p.err
	case <-ctx.Done():
		return 0, fmt.Errorf("%w: %w", ErrUnanswered, ctx.Err())
	}
}

// Close ends the publisher; what is in flight is ErrUnanswered. Wait for it
// before, where it matters. The connection stays open.
func (p *Publisher) Close() {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.closed = true
	p.mu.Unlock()
	close(p.stop)
	p.swept.Wait()
	p.nc.RemoveStatusListener(p.status)
	_ = p.sub.Unsubscribe()
	p.resolveAll(fmt.Errorf("%w: %w", ErrUnanswered, errPublisherClosed))
}

// register enters a publish into the list, unless the publisher is closed.
func (p *Publisher) register(pending *Pending) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.number++
	pending.number = p.number
	// Within the lock, so that the list is in the order of the deadlines.
	pending.deadline = time.Now().Add(p.cfg.AckTimeout)
	p.inFlight[pending.number] = pending
	pending.prev = p.newest
	if p.newest != nil {
		p.newest.next = pending
	} else {
		p.oldest = pending
	}
	p.newest = pending
	return true
}

// resolve settles one publish; a second answer, or one that came too late, does
// nothing.
func (p *Publisher) resolve(number, sequence uint64, err error) {
	p.mu.Lock()
	pending := p.inFlight[number]
	if pending != nil {
		p.remove(pending)
	}
	p.mu.Unlock()
	if pending != nil {
		pending.sequence, pending.err = sequence, err
		close(pending.done)
	}
}

// remove takes a publish out of map and list. The mutex is held.
func (p *Publisher) remove(pending *Pending) {
	delete(p.inFlight, pending.number)
	if pending.prev != nil {
		pending.prev.next = pending.next
	} else {
		p.oldest = pending.next
	}
	if pending.next != nil {
		pending.next.prev = pending.prev
	} else {
		p.newest = pending.prev
	}
	pending.prev, pending.next = nil, nil
}

// resolveAll settles everything in flight with one error, and says how many
// that were.
func (p *Publisher) resolveAll(err error) int {
	return p.resolveWhile(err, func(*Pending) bool { return true })
}

func (p *Publisher) resolveWhile(err error, overdue func(*Pending) bool) int {
	p.mu.Lock()
	var settled []*Pending
	for p.oldest != nil && overdue(p.oldest) {
		settled = append(settled, p.oldest)
		p.remove(p.oldest)
	}
	p.mu.Unlock()
	for _, pending := range settled {
		pending.err = err
		close(pending.done)
	}
	return len(settled)
}

// sweep settles what is overdue, and everything when the connection goes.
func (p *Publisher) sweep() {
	ticker := time.NewTicker(p.cfg.AckTimeout / 10)
	defer ticker.Stop()
	late := fmt.Errorf("%w within %v", ErrUnanswered, p.cfg.AckTimeout)
	for {
		select {
		case <-p.stop:
			return
		case status := <-p.status:
			if n := p.resolveAll(fmt.Errorf("%w: connection is %s", ErrUnanswered, strings.ToLower(status.String()))); n > 0 {
				p.cfg.Log.Warn().Int("publishes", n).Stringer("status", status).Msg("publishes left unanswered by a disconnect")
			}
		case now := <-ticker.C:
			p.resolveWhile(late, func(oldest *Pending) bool { return now.After(oldest.deadline) })
		}
	}
}

// answered is called by the subscription, one answer at a time.
func (p *Publisher) answered(msg *nats.Msg) {
	number, err := strconv.ParseUint(msg.Subject[len(p.inbox):], 36, 64)
	if err != nil {
		return // nobody of ours
	}
	if len(msg.Data) == 0 && msg.Header.Get("Status") == "503" {
		p.resolve(number, 0, fmt.Errorf("%w: no stream listens, or it has no leader", ErrUnanswered))
		return
	}
	sequence, err := parseAck(msg.Data)
	p.resolve(number, sequence, err)
}
