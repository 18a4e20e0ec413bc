package bench

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"runledger/internal/events"
	"runledger/internal/stream"

	"github.com/nats-io/nats.go"
)

// intentMsg is an event in binary mode, without its data.
func intentMsg(subject string, verb events.Verb, id, source string) *nats.Msg {
	return &nats.Msg{Subject: subject, Header: nats.Header{
		"ce-specversion": {"1.0"}, "ce-id": {id}, "ce-source": {source}, "ce-type": {verb.Type()},
		"ce-time": {time.Now().UTC().Format(events.TimeFormat)}, "ce-datacontenttype": {"application/json"},
	}}
}

// intentWriter makes a tool.call again and again in the same place; the client
// copies it when it is published.
type intentWriter struct {
	call   *nats.Msg
	data   *patch
	result *nats.Msg
}

func newIntentWriter(arguments int) intentWriter {
	return intentWriter{
		call: intentMsg("", events.VerbToolCall, "", "/agents/"+agentName), data: newPatch(requestData(arguments)),
		result: intentMsg("", events.VerbToolResult, "", "/executors/"+executorName),
	}
}

// send publishes the intent of a new call of a run.
func (l *load) send(run int, scheduled time.Time) (*call, error) {
	l.next++
	c := &l.calls[l.next%ring]
	if c.number != 0 {
		return nil, fmt.Errorf("more than %d calls are under way", ring)
	}
	*c = call{number: l.next, run: run, scheduled: scheduled}
	name, id := runName(run), callName(l.next)
	msg := l.intent.call
	msg.Subject, msg.Reply = l.subjects.Agent(agentName, name, events.VerbToolCall), l.inbox+".a"
	msg.Header["ce-id"][0] = id
	msg.Data = l.intent.data.with(name, id)
	return c, l.nc.PublishMsg(msg)
}

// of finds the call that a message names.
func (l *load) of(m *nats.Msg) (*call, error) {
	id, ok := toolCallID(m.Data)
	if !ok {
		return nil, fmt.Errorf("%s names no call: %.300s", m.Subject, m.Data)
	}
	number, ok := callNumber(id)
	if !ok {
		return nil, fmt.Errorf("%s names a call that is not ours: %.100s", m.Subject, id)
	}
	c := &l.calls[number%ring]
	if c.number != number {
		return nil, fmt.Errorf("%s came for call %d, which is not under way", m.Subject, number)
	}
	return c, nil
}

// dispatched claims a call: whoever creates the key runs it.
func (l *load) dispatched(m *nats.Msg) error {
	if err := l.pull.took(m); err != nil {
		return err
	}
	c, err := l.of(m)
	if err != nil {
		return err
	}
	if c.measured {
		c.play.toDispatch.record(time.Since(c.scheduled))
	}
	tokens := strings.Split(m.Subject, ".")
	c.dispatch = tokens[len(tokens)-2] + "." + tokens[len(tokens)-1]
	c.ack = m.Reply
	claim := l.intentClaim(c)
	return l.nc.PublishMsg(claim)
}

func (l *load) intentClaim(c *call) *nats.Msg {
	number := strconv.FormatUint(c.number, 10)
	return &nats.Msg{
		Subject: "$KV." + stream.BucketClaims + "." + c.dispatch, Reply: l.inbox + ".c." + number,
		Header: nats.Header{headerExpectLast: {"0"}},
		Data:   []byte("bench-claim-" + number + " bench"),
	}
}

// claimed acknowledges the dispatch and publishes the result: the tool itself
// takes no time.
func (l *load) claimed(answer []byte, number string) error {
	if _, err := ackSequence(answer); err != nil {
		return fmt.Errorf("claim of call %s: %w", number, err)
	}
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return fmt.Errorf("claim of call %q: %w", number, err)
	}
	c := &l.calls[n%ring]
	if err := l.nc.Publish(c.ack, nil); err != nil { // nothing is +ACK
		return err
	}
	name, id := runName(c.run), callName(c.number)
	msg := l.intent.result
	msg.Subject, msg.Reply = l.subjects.Executor(executorName, name), l.inbox+".a"
	msg.Header["ce-id"][0] = "r-" + id
	l.scratch = append(append(append(l.scratch[:0], l.resultHead.with(name, id)...), c.dispatch...), l.resultTail...)
	msg.Data = l.scratch
	c.resulted = time.Now()
	return l.nc.PublishMsg(msg)
}

// settled ends a call.
func (l *load) settled(m *nats.Msg) error {
	c, err := l.of(m)
	if err != nil {
		return err
	}
	if !ready(m.Data) {
		return fmt.Errorf("call %d ended otherwise than READY: %.500s", c.number, m.Data)
	}
	c.number = 0
	c.play.settled(c, time.Now())
	return nil
}
