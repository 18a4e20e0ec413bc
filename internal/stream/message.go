package stream

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Message is one stored message. Its header and data are not shared with any
// other message; whoever got it may keep them.
type Message struct {
	// Subject is the stored subject (after the stream's transform).
	Subject string
	// Header is nil where the message has none. Names are as they were sent.
	Header nats.Header
	// Data holds the bytes that were sent.
	Data []byte
	// Sequence is the stream sequence, from 1.
	Sequence uint64
	// Time is when the server stored it, by the server's clock.
	Time time.Time
}

// size is what a message counts for under a limit of bytes.
func (m Message) size() int {
	n := len(m.Subject) + len(m.Data)
	for name, values := range m.Header {
		for _, value := range values {
			n += len(name) + len(value) + 4
		}
	}
	return n
}

// delivery is what the reply subject of a delivered message tells.
type delivery struct {
	consumer         string
	streamSequence   uint64
	consumerSequence uint64
	time             time.Time
}

var errNotDelivery = errors.New("reply subject is not that of a delivered message")

// parseDelivery reads the reply subject of a message that a consumer delivered:
// $JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>,
// or the longer form with domain and account hash after ACK.
func parseDelivery(reply string) (delivery, error) {
	const shortForm, longForm = 9, 11
	var parts [longForm + 1]string
	rest, n := reply, 0
	for n < len(parts) {
		part, after, more := strings.Cut(rest, ".")
		parts[n], rest = part, after
		n++
		if !more {
			break
		}
	}
	if n < shortForm || parts[0] != "$JS" || parts[1] != "ACK" {
		return delivery{}, fmt.Errorf("%w: %q", errNotDelivery, reply)
	}
	at := 2
	if n >= longForm {
		at = 4
	}
	streamSequence, err1 := strconv.ParseUint(parts[at+3], 10, 64)
	consumerSequence, err2 := strconv.ParseUint(parts[at+4], 10, 64)
	nanoseconds, err3 := strconv.ParseInt(parts[at+5], 10, 64)
	if err := errors.Join(err1, err2, err3); err != nil {
		return delivery{}, fmt.Errorf("%w: %q", errNotDelivery, reply)
	}
	return delivery{
		consumer:         parts[at+1],
		streamSequence:   streamSequence,
		consumerSequence: consumerSequence,
		time:             time.Unix(0, nanoseconds).UTC(),
	}, nil
}
