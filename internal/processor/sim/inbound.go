package sim

import (
	"hash/fnv"
	"strconv"
	"strings"

	"runledger/internal/processor/sim/judge"

	"github.com/nats-io/nats.go"
)

// inbound is what the stream IN does: it stores, in the partition of the run;
// sometimes twice, as a client does that got no answer.
func (w *world) inbound(subject string, header nats.Header, data []byte) {
	w.storeInbound(subject, header, data)
	if w.chance(w.faults.Duplicate) {
		w.storeInbound(subject, header, data)
	}
}

func (w *world) storeInbound(subject string, header nats.Header, data []byte) {
	run := tokenOf(subject, 4) // <prefix>.in.<role>.<principal>.<run>.<verb>
	if tokenOf(subject, 1) == "tick" {
		run = tokenOf(subject, 2)
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(run))
	part := w.partitions[int(h.Sum32())%len(w.partitions)]
	stored := strings.Replace(subject, prefix+".", prefix+".part."+strconv.Itoa(part.number)+".", 1)
	m := w.in.append(stored, header, data, w.clock)
	part.events = append(part.events, m)
	if w.trace != nil {
		w.tell("IN %d %s %s %#.200q", m.Sequence, stored, strings.Join(header["ce-id"], ""), data)
	}
	w.judge.Inbound(judge.Message{Subject: stored, Header: header, Data: data, Sequence: m.Sequence, Time: m.Time})
}
