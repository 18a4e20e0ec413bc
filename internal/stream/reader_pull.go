package stream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

const (
	// maxEnvelope is what subject, reply and headers may add to a payload in
	// the server's count of a pull's bytes.
	maxEnvelope = 16 << 10
	// openTimeout bounds each request of an opening.
	openTimeout = 3 * time.Second
	// consumerInactive is after how long the server drops a consumer that
	// nobody pulls from: long enough for a worker that holds on, since making a
	// new one is harmless.
	consumerInactive = 30 * time.Second
)

var (
	// errSeemsRewound is ErrRewound before the grace has passed.
	errSeemsRewound  = errors.New("stream seems to end before the position")
	errGap           = errors.New("consumer sequence has a gap")
	errNoHeartbeat   = errors.New("no heartbeat")
	errReconnected   = errors.New("connection was made anew")
	errConsumerGone  = errors.New("consumer is gone")
	errSubscription  = errors.New("subscription ended")
	errPullRefused   = errors.New("pull refused")
	errUnknownStatus = errors.New("status without meaning here")
)

// apiPrefix is what stands before JetStream requests, with its dot.
func apiPrefix(js jetstream.JetStream) string {
	options := js.Options()
	prefix := options.APIPrefix
	switch {
	case prefix == "" && options.Domain != "":
		prefix = "$JS." + options.Domain + ".API"
	case prefix == "":
		prefix = jetstream.DefaultAPIPrefix
	}
	return strings.TrimSuffix(prefix, ".") + "."
}

// pull is one consumer of a Reader and the pulls from it. Its goroutine is the
// reader's.
type pull struct {
	r        *Reader
	consumer string
	sub      *nats.Subscription
	inbox    string // replies of pull n come to <inbox>.<n>
	in       chan *nats.Msg
	status   chan nats.Status

	lastConsumerSequence uint64
	number               uint64 // of the running pull
	reply                string // its reply subject
	outstanding          int    // messages that it may still bring; 0 where none runs
	bytesLeft            int    // bytes that it may still bring, as the server counts
	heard                time.Time
}

// open makes a consumer after the cursor and subscribes to what it brings.
func (r *Reader) open(ctx context.Context) (*pull, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	// The status is watched from before the consumer is made, so that no
	// reconnect in between is missed.
	status := r.nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	p := &pull{
		r: r, consumer: "reader-" + nuid.Next(), status: status,
		// Room for everything one pull can bring, and its statuses: the channel
		// cannot overflow, so nothing is dropped as from a slow consumer.
		in: make(chan *nats.Msg, r.cfg.MaxMessages+256),
	}
	if err := r.prepare(ctx, p); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (r *Reader) prepare(ctx context.Context, p *pull) error {
	info, err := r.js.Stream(ctx, r.cfg.Stream)
	if err != nil {
		return err
	}
	if made := Made(info.CachedInfo()); r.cfg.Made != "" && made != r.cfg.Made {
		return fmt.Errorf("%w: %s was made at %s, and the position %d counts in that of %s", ErrRewound, r.cfg.Stream, made, r.cursor, r.cfg.Made)
	}
	if err := r.checkRewound(info.CachedInfo().State.LastSeq); err != nil {
		return err
	}
	p.inbox = newInbox(r.nc)
	if p.sub, err = r.nc.ChanSubscribe(p.inbox+".*", p.in); err != nil {
		return err
	}
	_, err = r.js.CreateConsumer(ctx, r.cfg.Stream, jetstream.ConsumerConfig{
		Name:              p.consumer,
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       r.cursor + 1,
		FilterSubject:     r.filter,
		AckPolicy:         jetstream.AckNonePolicy,
		MaxDeliver:        1,
		InactiveThreshold: consumerInactive,
		MemoryStorage:     true,
		Replicas:          1,
	})
	return err
}

// checkRewound guards against a stream that is shorter than the position.
func (r *Reader) checkRewound(last uint64) error {
	if last >= r.cursor {
		r.rewoundSince = time.Time{}
		return nil
	}
	now := time.Now()
	if r.rewoundSince.IsZero() {
		r.rewoundSince = now
	}
	if now.Sub(r.rewoundSince) < r.cfg.RewindGrace {
		return fmt.Errorf("%w: %s ends at %d, position is %d", errSeemsRewound, r.cfg.Stream, last, r.cursor)
	}
	return fmt.Errorf("%w: %s ends at %d, position is %d; restore the stream, or move the position by hand if what is lost is known",
		ErrRewound, r.cfg.Stream, last, r.cursor)
}

// close gives the consumer back without waiting for an answer; if the request
// is lost, the server drops the consumer by itself.
func (p *pull) close() {
	p.r.nc.RemoveStatusListener(p.status)
	if p.sub == nil {
		return
	}
	_ = p.sub.Unsubscribe()
	_ = p.r.nc.Publish(p.r.api+"CONSUMER.DELETE."+p.r.cfg.Stream+"."+p.consumer, nil)
}

// serve pulls until the consumer is no longer good, and says why.
func (p *pull) serve(ctx context.Context) error {
	if err := p.request(); err != nil {
		return err
	}
	watchdog := time.NewTicker(p.r.cfg.Heartbeat / 2)
	defer watchdog.Stop()
	for {
		select {
		case msg, ok := <-p.in:
			if !ok {
				return errSubscription
			}
			if err := p.receive(msg); err != nil {
				return err
			}
			if p.outstanding == 0 {
				if err := p.request(); err != nil {
					return err
				}
			}
		case <-p.r.space:
			if err := p.request(); err != nil {
				return err
			}
		case <-watchdog.C:
			if p.outstanding > 0 && time.Since(p.heard) > 2*p.r.cfg.Heartbeat+p.r.cfg.Heartbeat/2 {
				return errNoHeartbeat
			}
		case <-p.status:
			// The server forgot the pull with the connection.
			return errReconnected
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// request starts the next pull, where none is running and the buffer has room.
// It waits until half of it is free: small pulls cost the server as much as
// large ones, and the largest message must fit.
func (p *pull) request() error {
	if p.outstanding > 0 {
		return nil
	}
	messages, bytes := p.r.room()
	if messages < (p.r.cfg.MaxMessages+1)/2 || bytes < p.r.cfg.MaxBytes/2 {
		return nil
	}
	body := make([]byte, 0, 128)
	body = append(body, `{"batch":`...)
	body = strconv.AppendInt(body, int64(messages), 10)
	body = append(body, `,"max_bytes":`...)
	body = strconv.AppendInt(body, int64(bytes), 10)
	body = append(body, `,"expires":`...)
	body = strconv.AppendInt(body, int64(p.r.cfg.Expiry), 10)
	body = append(body, `,"idle_heartbeat":`...)
	body = strconv.AppendInt(body, int64(p.r.cfg.Heartbeat), 10)
	body = append(body, '}')
	p.number++
	p.reply = p.inbox + "." + strconv.FormatUint(p.number, 10)
	if err := p.r.nc.PublishRequest(p.r.api+"CONSUMER.MSG.NEXT."+p.r.cfg.Stream+"."+p.consumer, p.reply, body); err != nil {
		return fmt.Errorf("pull: %w", err)
	}
	p.outstanding, p.bytesLeft, p.heard = messages, bytes, time.Now()
	return nil
}

// receive takes a message and all that wait behind it, and puts them into the
// buffer in one go. What came in order before an error is kept.
func (p *pull) receive(msg *nats.Msg) error {
	p.heard = time.Now()
	var batch []Message
	var err error
	for {
		if batch, err = p.accept(batch, msg); err != nil {
			break
		}
		select {
		case next, ok := <-p.in:
			if ok {
				msg = next
				continue
			}
			err = errSubscription
		default:
		}
		break
	}
	if len(batch) > 0 {
		p.r.cursor = batch[len(batch)-1].Sequence
		p.r.put(batch)
	}
	return err
}

// accept appends a message to the batch, or reads what a status says.
func (p *pull) accept(batch []Message, msg *nats.Msg) ([]Message, error) {
	if strings.HasPrefix(msg.Subject, p.inbox) { // a stored message keeps its own subject
		return batch, p.readStatus(msg)
	}
	d, err := parseDelivery(msg.Reply)
	if err != nil {
		return batch, err
	}
	last := p.r.cursor
	if len(batch) > 0 {
		last = batch[len(batch)-1].Sequence
	}
	if d.consumer != p.consumer || d.consumerSequence != p.lastConsumerSequence+1 || d.streamSequence <= last {
		return batch, fmt.Errorf("%w: expected delivery %d after message %d, came delivery %d of message %d",
			errGap, p.lastConsumerSequence+1, last, d.consumerSequence, d.streamSequence)
	}
	p.lastConsumerSequence = d.consumerSequence
	p.outstanding--
	// A pull whose bytes are used up to the last one ends without a status.
	if p.bytesLeft -= msg.Size(); p.bytesLeft <= 0 {
		p.outstanding = 0
	}
	return append(batch, Message{
		Subject: msg.Subject, Header: msg.Header, Data: msg.Data,
		Sequence: d.streamSequence, Time: d.time,
	}), nil
}

// readStatus tells the statuses that end a pull in good order from those that
// end the consumer.
func (p *pull) readStatus(msg *nats.Msg) error {
	if msg.Subject != p.reply {
		return nil // a pull that has ended by its count says so once more
	}
	code, description := msg.Header.Get("Status"), msg.Header.Get("Description")
	switch code {
	case "100": // heartbeat
		return nil
	case "404", "408": // nothing there, or expired
		p.outstanding = 0
		return nil
	case "409":
		// Matched by the server's words; there is no code for them.
		if strings.Contains(description, "MaxBytes") || strings.Contains(description, "Batch Completed") {
			p.outstanding = 0
			return nil
		}
		return fmt.Errorf("%w: %s", errConsumerGone, description)
	case "503":
		return fmt.Errorf("%w: nobody answers for it", errConsumerGone)
	case "400":
		return fmt.Errorf("%w: %s", errPullRefused, description)
	}
	return fmt.Errorf("%w: %s %s", errUnknownStatus, code, description)
}
