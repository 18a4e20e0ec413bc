package demo

import (
	"bufio"
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits on a file of transcripts.
const (
	maxLine  = 64 << 20 // bytes of one run
	maxRuns  = 100_000
	maxCalls = 10_000 // of one run
)

//go:embed transcripts/*.jsonl
var builtIn embed.FS

// Transcript is one recorded run of an agent.
type Transcript struct {
	Name  string
	Calls []RecordedCall // in the order in which the agent made them
	Turns []Turn         // the agent's messages, which made the calls one after the other
}

// Turn is one message of the agent.
type Turn struct {
	Calls  int   // how many it makes
	Input  int64 // bytes of the conversation before it, as recorded
	Output int64 // bytes of the message
}

// RecordedCall is one tool call and what came of it.
type RecordedCall struct {
	ID        string // the framework's, which may stand for two calls of one run
	Tool      string
	Arguments json.RawMessage // as recorded; a JSON string where the record is no JSON
	Answered  bool            // whether a result is recorded
	Content   string          // the recorded result
}

// BuiltIn gives the transcripts that the program carries: excerpts of
// sierra-research/tau-bench (MIT licence, Copyright (c) 2024 Sierra).
func BuiltIn() ([]Transcript, error) {
	file, err := builtIn.Open("transcripts/airline.jsonl")
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return ReadTranscripts(file)
}

// LoadTranscripts reads a file for [ReadTranscripts].
func LoadTranscripts(path string) ([]Transcript, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("transcripts: %w", err)
	}
	defer func() { _ = file.Close() }()
	transcripts, err := ReadTranscripts(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return transcripts, nil
}

// ReadTranscripts reads one run a line, {"run": name, "messages": […]}, the
// messages in the OpenAI chat format. An error names the line.
func ReadTranscripts(r io.Reader) ([]Transcript, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	var all []Transcript
	number := 0
	for lines.Scan() {
		number++
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		t, err := readTranscript(line)
		if err != nil {
			return nil, fmt.Errorf("transcripts, line %d: %w", number, err)
		}
		if t.Name == "" {
			t.Name = fmt.Sprintf("run-%d", number)
		}
		if all = append(all, t); len(all) > maxRuns {
			return nil, fmt.Errorf("transcripts: want at most %d runs, got more", maxRuns)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("transcripts, line %d: %w (a run may have %d bytes)", number+1, err, maxLine)
	}
	if len(all) == 0 {
		return nil, errors.New("transcripts: want one run a line, got none")
	}
	return all, nil
}

// chatMessage is what of a message matters here.
type chatMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCallID string          `json:"tool_call_id"`
	ToolCalls  []struct {
		ID       string `json:"id"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

// size is what the message says, in bytes.
func (m *chatMessage) size() int64 {
	size := 0
	if string(m.Content) != "null" {
		size = len(m.Content)
	}
	for _, call := range m.ToolCalls {
		size += len(call.Function.Name) + len(call.Function.Arguments)
	}
	return int64(size)
}

func readTranscript(line []byte) (Transcript, error) {
	var run struct {
		Run      string        `json:"run"`
		Messages []chatMessage `json:"messages"`
	}
	if err := json.Unmarshal(line, &run); err != nil {
		return Transcript{}, fmt.Errorf(`want {"run": name, "messages": […]}: %w`, err)
	}
	t := Transcript{Name: run.Run}
	said := int64(0)
	for i, m := range run.Messages {
		if m.Role == "assistant" {
			t.Turns = append(t.Turns, Turn{Calls: len(m.ToolCalls), Input: said, Output: m.size()})
		}
		said += m.size()
		for _, call := range m.ToolCalls {
			t.Calls = append(t.Calls, RecordedCall{
				ID: call.ID, Tool: call.Function.Name, Arguments: asJSON(call.Function.Arguments),
			})
		}
		if len(t.Calls) > maxCalls {
			return Transcript{}, fmt.Errorf("run %s: want at most %d calls, got more", t.Name, maxCalls)
		}
		if m.Role != "tool" {
			continue
		}
		content, err := readContent(m.Content)
		if err != nil {
			return Transcript{}, fmt.Errorf("run %s, message %d: %w", t.Name, i+1, err)
		}
		if !t.answer(m.ToolCallID, content) {
			return Transcript{}, fmt.Errorf("run %s, message %d: a result for tool call %.80q, which no message before it makes", t.Name, i+1, m.ToolCallID)
		}
	}
	return t, nil
}

// answer gives a result to the first call of that id that has none: one id may
// stand for two calls, and results come in the order of the calls.
func (t *Transcript) answer(id, content string) bool {
	at := slices.IndexFunc(t.Calls, func(c RecordedCall) bool { return c.ID == id && !c.Answered })
	if at < 0 {
		return false
	}
	t.Calls[at].Answered, t.Calls[at].Content = true, content
	return true
}

// readContent takes a string, null, or a list of text parts.
func readContent(raw json.RawMessage) (string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return "", errors.New("content: want a string, null or a list of text parts")
	}
	var joined strings.Builder
	for _, part := range parts {
		joined.WriteString(part.Text)
	}
	return joined.String(), nil
}

// asJSON gives the text itself where it is one JSON value, and a JSON string of
// it where it is not.
func asJSON(text string) json.RawMessage {
	if jsontext.Value(text).IsValid() {
		return json.RawMessage(text)
	}
	quoted, _ := jsontext.AppendQuote(nil, text) // fails on invalid UTF-8 only, and mends it
	return json.RawMessage(quoted)
}
