package bench

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"runledger/internal/events"
)

// Who speaks in a measurement, and of what.
const (
	agentName    = "bench"
	executorName = "bench"
	toolName     = "lookup"
)

// Runs and calls are numbers, written with a fixed width so that a message that
// was written before can be used again with another number in its place.
const (
	maxRuns    = 1_000_000
	runDigits  = 7
	callDigits = 10
)

func runName(n int) string { return fmt.Sprintf("run-%0*d", runDigits, n) }

func callName(n uint64) string { return fmt.Sprintf("call-%0*d", callDigits, n) }

func callNumber(name string) (uint64, bool) {
	n, ok := numberOf(name, "call-", callDigits)
	return uint64(n), ok
}

func numberOf(name, prefix string, digits int) (int, bool) {
	text, ok := strings.CutPrefix(name, prefix)
	if !ok || len(text) != digits {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 0
}

// toolCallID finds the tool call id in the data of a fact, a dispatch or a
// result without decoding it. It stands near the front of all of them.
func toolCallID(data []byte) (string, bool) {
	const name = `"tool_call_id":"`
	at := bytes.Index(data, []byte(name))
	if at < 0 {
		return "", false
	}
	rest := data[at+len(name):]
	end := bytes.IndexByte(rest, '"')
	if end < 0 {
		return "", false
	}
	return string(rest[:end]), true
}

// Sizes that leave room for what the data must hold.
const (
	minArguments = 128
	minResult    = 256
	maxResult    = 900 << 10
)

// requestData is the data of a tool.call whose arguments have a size in bytes.
// Its run and its call are zeros, to be put in by a patch.
func requestData(arguments int) []byte {
	head := `{"account":"` + callName(0) + `","include":["balance","history"],"note":"`
	return []byte(`{"run_id":"` + runName(0) + `","tool_call_id":"` + callName(0) + `","tool":"` + toolName +
		`","arguments":` + filled(head, `"}`, arguments) + `}`)
}

// resultData is the data of a tool.result up to its dispatch id, and from there
// on. The raw response has a size in bytes, and looks like what tools give:
// objects in a list. The policy keeps only its account and balance.
func resultData(size int) (head, tail []byte) {
	head = []byte(`{"run_id":"` + runName(0) + `","tool_call_id":"` + callName(0) + `","dispatch_id":"`)
	begin, end := `{"account":"A-1001","balance":1250.75,"history":[`, `]}`
	var rows strings.Builder
	for i := 0; ; i++ {
		row := fmt.Sprintf(`{"id":%d,"on":"2026-01-%02d","amount":%d.5,"text":"payment received, thank you"},`, i, i%28+1, i%1000)
		if len(begin)+rows.Len()+len(row)+len(end)+len(`{"text":""}`) > size {
			break
		}
		rows.WriteString(row)
	}
	raw := filled(begin+rows.String()+`{"text":"`, `"}`+end, size)
	return head, []byte(`","outcome":"` + string(events.ResultSucceeded) + `","result":` + raw + `}`)
}

// filled puts letters between two texts so that all has a size, if it is not
// larger already.
func filled(begin, end string, size int) string {
	return begin + strings.Repeat("x", max(0, size-len(begin)-len(end))) + end
}

// patch is a message that is used again and again, with the run and the call at
// places that were found once.
type patch struct {
	data  []byte
	runs  []int
	calls []int
}

func newPatch(data []byte) *patch {
	p := &patch{data: data}
	p.runs = places(data, runName(0))
	p.calls = places(data, callName(0))
	return p
}

func places(data []byte, text string) []int {
	var found []int
	for from := 0; ; {
		at := bytes.Index(data[from:], []byte(text))
		if at < 0 {
			return found
		}
		found = append(found, from+at)
		from += at + len(text)
	}
}

// with gives the data for a run and a call. They stand until the next patch.
func (p *patch) with(run, call string) []byte {
	for _, at := range p.runs {
		copy(p.data[at:], run)
	}
	for _, at := range p.calls {
		copy(p.data[at:], call)
	}
	return p.data
}

// ready tells whether a settled fact says that the call is READY.
func ready(data []byte) bool { return bytes.Contains(data, []byte(`"status":"READY"`)) }
