package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Sizes in bytes, the same as in runledger's own measure.
const (
	argumentBytes = 1 << 10
	resultBytes   = 4 << 10
)

// openRuns is how many runs the calls are spread over.
const openRuns = 1000

// recordAge is how long the tools keep what they know of a call: longer than
// any measurement, so that nothing expires within one.
const recordAge = time.Hour

// callTimeout is what a tool gets to run.
const callTimeout = 30 * time.Second

const toolName = "lookup"

// intent is what an agent asks for.
type intent struct {
	Call      int             `json:"call"`
	Run       string          `json:"run"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
}

// encodeIntent writes the intent of a call, with arguments of argumentBytes.
func encodeIntent(call int) []byte {
	return fmt.Appendf(nil, `{"call":%d,"run":"run-%04d","tool":%q,"arguments":%s}`,
		call, call%openRuns, toolName, jsonOf(argumentBytes))
}

// decide is the least that a user's own rules would look at. It is part of
// every peer's pipeline.
func decide(data []byte) (intent, error) {
	var i intent
	if err := json.Unmarshal(data, &i); err != nil {
		return intent{}, fmt.Errorf("intent: %w", err)
	}
	switch {
	case i.Tool != toolName:
		return intent{}, fmt.Errorf("intent: tool is %q, want %q", i.Tool, toolName)
	case len(i.Arguments) == 0 || i.Arguments[0] != '{':
		return intent{}, errors.New("intent: arguments are not a JSON object")
	case len(i.Arguments) > argumentBytes:
		return intent{}, fmt.Errorf("intent: arguments have %d bytes, want at most %d", len(i.Arguments), argumentBytes)
	}
	return i, nil
}

// runTool is the tool: a result of resultBytes at once.
func runTool() []byte { return []byte(jsonOf(resultBytes)) }

// callID is how a tool's own records name a call.
func callID(call int) string { return strconv.Itoa(call) }

func callOf(id string) (int, error) {
	call, err := strconv.Atoi(id)
	if err != nil {
		return 0, fmt.Errorf("call id %q: want a number", id)
	}
	return call, nil
}

// jsonOf is a JSON object of that many bytes.
func jsonOf(size int) string {
	const head, tail = `{"text":"`, `"}`
	return head + strings.Repeat("x", size-len(head)-len(tail)) + tail
}
