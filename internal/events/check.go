package events

import "fmt"

// MaxToolName bounds the name of a tool, in bytes. Names are as people give
// them; they never enter a subject or a key.
const MaxToolName = 256

// What a payload must hold beyond its Go type. The JSON Schemas in schemas/
// say the same; a test holds the two together.

func (p *RunStart) check() error {
	if p.Deadline.IsZero() {
		return fmt.Errorf("deadline: want an instant (RFC 3339 with zone), got none")
	}
	return nil
}

func (p *ToolCall) check() error {
	if p.Tool == "" || len(p.Tool) > MaxToolName {
		return fmt.Errorf("tool: want 1 to %d bytes, got %d", MaxToolName, len(p.Tool))
	}
	return nil
}

func (p *ToolResult) check() error {
	switch p.Outcome {
	case ResultSucceeded:
		if p.Result == nil {
			return fmt.Errorf("result: want a JSON value with outcome %s, got none", p.Outcome)
		}
	case ResultFailed:
	case ResultTooLarge:
		if p.Result != nil {
			return fmt.Errorf("result: want none with outcome %s", p.Outcome)
		}
		if p.Size < 1 {
			return fmt.Errorf("size: want the bytes of the raw response with outcome %s, got %d", p.Outcome, p.Size)
		}
	default:
		return fmt.Errorf("outcome: want %s, %s or %s, got %.40q", ResultSucceeded, ResultFailed, ResultTooLarge, string(p.Outcome))
	}
	if p.Size < 0 {
		return fmt.Errorf("size: want zero or more bytes, got %d", p.Size)
	}
	return nil
}

func (p *RunCancel) check() error {
	switch p.Reason {
	case CancelClientDisconnected, CancelUserRequested, CancelOperatorRequested:
		return nil
	default: // the others are the core's own
		return fmt.Errorf("reason: want %s, %s or %s, got %.40q",
			CancelClientDisconnected, CancelUserRequested, CancelOperatorRequested, string(p.Reason))
	}
}

func (p *RunFinish) check() error {
	if p.Outcome != OutcomeSuccess && p.Outcome != OutcomeFailed {
		return fmt.Errorf("outcome: want %s or %s, got %.40q", OutcomeSuccess, OutcomeFailed, string(p.Outcome))
	}
	return nil
}
