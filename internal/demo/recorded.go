package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"runledger/client"
)

// recorded is the memory of the executor: what each call of each run is to
// answer. The agent lays an answer down before it calls; what an accepted call
// was given stays, so that an id used twice keeps its first answer.
type recorded struct {
	mu      sync.Mutex
	answers map[callKey]*answerOf
}

type callKey struct{ run, toolCallID string }

type answerOf struct {
	call     RecordedCall
	accepted bool
}

func newRecorded() *recorded { return &recorded{answers: make(map[callKey]*answerOf)} }

// offer lays down the answer of a call that is about to be made.
func (r *recorded) offer(run string, call RecordedCall) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := callKey{run, call.ID}
	if known := r.answers[key]; known == nil || !known.accepted {
		r.answers[key] = &answerOf{call: call}
	}
}

// accepted says that the call was not refused.
func (r *recorded) accepted(run, toolCallID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers[callKey{run, toolCallID}].accepted = true
}

// run is the handler of every tool.
func (r *recorded) run(_ context.Context, d client.Dispatch) ([]byte, error) {
	r.mu.Lock()
	known := r.answers[callKey{d.RunID, d.ToolCallID}]
	r.mu.Unlock()
	switch {
	case known == nil || known.call.Tool != d.Tool:
		return nil, fmt.Errorf("no transcript has a call %.80q of %.80q in run %s", d.ToolCallID, d.Tool, d.RunID)
	case !known.call.Answered:
		return nil, errors.New("the transcript has no result for this call")
	case strings.HasPrefix(known.call.Content, "Error"):
		return asJSON(known.call.Content), errors.New("the recorded result is an error")
	}
	return asJSON(known.call.Content), nil
}
