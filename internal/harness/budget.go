package harness

import (
	"errors"
	"fmt"
	"maps"
	"sync"

	"runledger/internal/events"
)

// LimitName names one of the seven kinds of limit.
type LimitName string

// The kinds of limit, as the payload of run.start names them.
const (
	LimitModelCalls   LimitName = "model_calls"
	LimitToolCalls    LimitName = "tool_calls"
	LimitCallsPerTool LimitName = "calls_per_tool"
	LimitInputTokens  LimitName = "input_tokens"
	LimitOutputTokens LimitName = "output_tokens"
	LimitTotalTokens  LimitName = "total_tokens"
	LimitRunBytes     LimitName = "run_bytes"
)

// ExceededError says which limit a reservation would pass.
type ExceededError struct {
	Limit LimitName
	Max   int64
	Want  int64 // what the usage would have become
}

func (e *ExceededError) Error() string {
	return fmt.Sprintf("budget: %s would be %d, and the limit is %d", e.Limit, e.Want, e.Max)
}

func exceeds(name LimitName, limit, used, more int64) error {
	if more > limit-used { // in this form it cannot overflow
		return &ExceededError{Limit: name, Max: limit, Want: used + more}
	}
	return nil
}

// CheckToolCall reports, as an *ExceededError, the first limit that one more
// call of the tool with a request of that many bytes would pass. The bytes are
// checked last, so that the usage of a refused call stays as it was.
func CheckToolCall(limits events.Limits, used events.Usage, tool string, requestBytes int64) error {
	if err := exceeds(LimitToolCalls, limits.ToolCalls, used.ToolCalls, 1); err != nil {
		return err
	}
	if err := exceeds(LimitCallsPerTool, limits.CallsPerTool, used.CallsByTool[tool], 1); err != nil {
		return err
	}
	return CheckRunBytes(limits, used, requestBytes)
}

// CheckRunBytes reports, as an *ExceededError, whether that many more bytes
// would pass the run's limit.
func CheckRunBytes(limits events.Limits, used events.Usage, more int64) error {
	return exceeds(LimitRunBytes, limits.RunBytes, used.RunBytes, more)
}

// CheckModelCall reports, as an *ExceededError, whether one more model call
// would pass its limit, or the tokens already have passed one of theirs.
func CheckModelCall(limits events.Limits, used events.Usage) error {
	if err := exceeds(LimitModelCalls, limits.ModelCalls, used.ModelCalls, 1); err != nil {
		return err
	}
	return checkTokens(limits, used, events.TokenUsage{})
}

func checkTokens(limits events.Limits, used events.Usage, more events.TokenUsage) error {
	if err := exceeds(LimitInputTokens, limits.InputTokens, used.InputTokens, more.InputTokens); err != nil {
		return err
	}
	if err := exceeds(LimitOutputTokens, limits.OutputTokens, used.OutputTokens, more.OutputTokens); err != nil {
		return err
	}
	return exceeds(LimitTotalTokens, limits.TotalTokens, used.TotalTokens, more.Total())
}

// passedByTokens gives the first limit that reported usage passes; empty if
// none.
func passedByTokens(limits events.Limits, used events.Usage, more events.TokenUsage) LimitName {
	var exceeded *ExceededError
	if errors.As(checkTokens(limits, used, more), &exceeded) {
		return exceeded.Limit
	}
	return ""
}

// addTokens records actual usage, whether or not it passes a limit.
func addTokens(u *events.Usage, more events.TokenUsage) {
	u.InputTokens += more.InputTokens
	u.OutputTokens += more.OutputTokens
	u.TotalTokens += more.Total()
}

// addToolCall counts a reserved call. It changes the map of u in place.
func addToolCall(u *events.Usage, tool string, requestBytes int64) {
	u.ToolCalls++
	if u.CallsByTool == nil {
		u.CallsByTool = make(map[string]int64)
	}
	u.CallsByTool[tool]++
	u.RunBytes += requestBytes
}

// Budget is the limits of a run and what it has used of them. It is safe for
// use by several goroutines.
type Budget struct {
	limits   events.Limits
	capacity *Capacity

	mu   sync.Mutex
	used events.Usage // RunBytes is kept by capacity
}

// NewBudget returns an unused budget. Every limit must be positive.
func NewBudget(limits events.Limits) (*Budget, error) {
	if name, value, ok := firstNotPositive(limits); ok {
		return nil, fmt.Errorf("limit %s: want a positive number, got %d", name, value)
	}
	return &Budget{limits: limits, capacity: NewCapacity(limits.RunBytes)}, nil
}

// Limits gives the limits.
func (b *Budget) Limits() events.Limits { return b.limits }

// ReserveToolCall takes one call of the tool with a request of that many bytes,
// all or nothing. The error is an *ExceededError.
func (b *Budget) ReserveToolCall(tool string, requestBytes int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used.RunBytes = b.capacity.Used()
	if err := CheckToolCall(b.limits, b.used, tool, requestBytes); err != nil {
		return err
	}
	if requestBytes > 0 {
		if err := b.capacity.Reserve(requestBytes); err != nil {
			return err
		}
	}
	addToolCall(&b.used, tool, 0)
	return nil
}

// ReserveModelCall takes one model call, whose usage is unknown until
// RecordTokens tells it. The error is an *ExceededError.
func (b *Budget) ReserveModelCall() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := CheckModelCall(b.limits, b.used); err != nil {
		return err
	}
	b.used.ModelCalls++
	b.used.UnknownUsage++ // until RecordTokens tells it
	return nil
}

// RecordTokens records what a model call actually used, also where that passes
// a limit, which the *ExceededError then names. Usage that is no count of tokens
// is refused with another error and changes nothing.
func (b *Budget) RecordTokens(usage events.TokenUsage) error {
	if err := usage.Check(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	err := checkTokens(b.limits, b.used, usage)
	addTokens(&b.used, usage)
	b.used.UnknownUsage = max(b.used.UnknownUsage-1, 0)
	return err
}

// Usage gives a snapshot.
func (b *Budget) Usage() events.Usage {
	b.mu.Lock()
	defer b.mu.Unlock()
	snapshot := b.used
	snapshot.CallsByTool = maps.Clone(b.used.CallsByTool)
	snapshot.RunBytes = b.capacity.Used()
	return snapshot
}

type namedLimit struct {
	name  LimitName
	value int64
}

// limitList gives the limits in one fixed order, so that the first that is
// wrong is always the same.
func limitList(l events.Limits) [7]namedLimit {
	return [7]namedLimit{
		{LimitModelCalls, l.ModelCalls}, {LimitToolCalls, l.ToolCalls}, {LimitCallsPerTool, l.CallsPerTool},
		{LimitInputTokens, l.InputTokens}, {LimitOutputTokens, l.OutputTokens}, {LimitTotalTokens, l.TotalTokens},
		{LimitRunBytes, l.RunBytes},
	}
}

func firstNotPositive(l events.Limits) (LimitName, int64, bool) {
	for _, limit := range limitList(l) {
		if limit.value <= 0 {
			return limit.name, limit.value, true
		}
	}
	return "", 0, false
}

func firstAbove(l, ceilings events.Limits) (LimitName, int64, bool) {
	ceiling := limitList(ceilings)
	for i, limit := range limitList(l) {
		if limit.value > ceiling[i].value {
			return limit.name, limit.value, true
		}
	}
	return "", 0, false
}
