package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"runledger/internal/stream"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// puller keeps a pull consumer sending: it asks for more before what it has
// asked for is used up. It does nothing else, so that it costs next to nothing;
// it is not for work that must survive a lost server.
type puller struct {
	nc      *nats.Conn
	subject string // of requests for the next messages
	inbox   string // where they come to
	want    int    // asked for and not come yet
	batch   int
}

const pullExpiry = "3600000000000" // an hour, in nanoseconds: longer than any phase

func newPuller(nc *nats.Conn, from, consumer, inbox string, batch int) *puller {
	return &puller{
		nc: nc, subject: jetstream.DefaultAPIPrefix + "CONSUMER.MSG.NEXT." + from + "." + consumer,
		inbox: inbox, batch: batch,
	}
}

// ask asks for more where less than half of a batch is to come.
func (p *puller) ask() error {
	if p.want > p.batch/2 {
		return nil
	}
	p.want += p.batch
	return p.nc.PublishRequest(p.subject, p.inbox, []byte(`{"batch":`+strconv.Itoa(p.batch)+`,"expires":`+pullExpiry+`}`))
}

// took counts a message that came. One that says what became of the request
// itself is an error: in an hour without losses there is none.
func (p *puller) took(m *nats.Msg) error {
	if len(m.Data) == 0 && m.Header.Get("Status") != "" {
		return fmt.Errorf("pull: the server says %s %s", m.Header.Get("Status"), m.Header.Get("Description"))
	}
	p.want--
	return p.ask()
}

// newReader makes an ephemeral consumer of IN without acks, as the processor's.
func newReader(ctx context.Context, js jetstream.JetStream, filters []string) (name string, err error) {
	config := jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverAllPolicy, AckPolicy: jetstream.AckNonePolicy,
		MemoryStorage: true, Replicas: 1, MaxDeliver: 1,
	}
	if len(filters) == 1 {
		config.FilterSubject = filters[0]
	} else {
		config.FilterSubjects = filters
	}
	consumer, err := js.CreateConsumer(ctx, stream.StreamIn, config)
	if err != nil {
		return "", fmt.Errorf("make a consumer of %s: %w", stream.StreamIn, err)
	}
	return consumer.CachedInfo().Name, nil
}

// ackSequence reads the sequence in a stream's answer to a publish.
func ackSequence(data []byte) (uint64, error) {
	var ack struct {
		Sequence uint64              `json:"seq"`
		Error    *jetstream.APIError `json:"error"`
	}
	if sequence, ok := plainSequence(data); ok {
		return sequence, nil
	}
	if err := json.Unmarshal(data, &ack); err != nil {
		return 0, fmt.Errorf("answer of a stream: %.100q: %w", data, err)
	}
	if ack.Error != nil {
		return 0, ack.Error
	}
	return ack.Sequence, nil
}

// plainSequence reads the usual answer, {"stream":"RUNS","seq":12}.
func plainSequence(data []byte) (uint64, bool) {
	const mark = `"seq":`
	for i := len(data) - 2; i > len(mark); i-- { // from the end: the digits before }
		if c := data[i]; c >= '0' && c <= '9' {
			continue
		}
		if data[len(data)-1] != '}' || data[i] != ':' || string(data[i-len(mark)+1:i+1]) != mark {
			return 0, false
		}
		n, err := strconv.ParseUint(string(data[i+1:len(data)-1]), 10, 64)
		return n, err == nil
	}
	return 0, false
}
