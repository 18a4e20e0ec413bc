package demo

import (
	"context"
	"errors"
	"fmt"

	"runledger/client"
)

const (
	bytesPerToken = 4   // an estimate, for the transcripts do not tell
	instructions  = 300 // tokens that stand before every conversation, and in no transcript
)

// errUnreachable is how the first attempt of some routings fails.
var errUnreachable = errors.New("the model could not be reached")

// route plays the model operation that a run begins with. In every third run its
// first attempt fails on the way to the model.
func (p *player) route(ctx context.Context, run *client.Run, index int, t Transcript) error {
	input := int64(instructions)
	if len(t.Turns) > 0 {
		input += t.Turns[0].Input / bytesPerToken
	}
	call := client.ModelCall{Operation: client.OperationIntentRouter, ID: "route-1"}
	return p.model(ctx, run, call, func(_ context.Context, attempt int) (*client.TokenUsage, error) {
		if index%3 == 1 && attempt == 1 {
			return nil, client.Classify(client.FailureTransport, errUnreachable)
		}
		return &client.TokenUsage{InputTokens: input, OutputTokens: 1}, nil
	})
}

// think plays the model call that one message of the agent comes from. Now and
// then its provider does not say what it used.
func (p *player) think(ctx context.Context, run *client.Run, index, turn int, t Turn) error {
	call := client.ModelCall{Operation: client.OperationDiagnosisAgent, ID: fmt.Sprintf("turn-%d", turn+1)}
	return p.model(ctx, run, call, func(context.Context, int) (*client.TokenUsage, error) {
		if (index+turn)%5 == 3 {
			return nil, nil
		}
		return &client.TokenUsage{InputTokens: instructions + t.Input/bytesPerToken, OutputTokens: 1 + t.Output/bytesPerToken}, nil
	})
}

func (p *player) model(ctx context.Context, run *client.Run, call client.ModelCall, attempt client.AttemptFunc) error {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Step)
	defer cancel()
	made, err := run.Model(ctx, call, attempt)
	p.count(func() { p.played.Attempts += len(made) })
	return err
}
