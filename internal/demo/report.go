package demo

import (
	"context"
	"errors"
	"slices"
	"strings"

	"runledger/client"
)

const (
	mostClaims  = 31           // of the calls; one more stands for none, and a report may have 32
	neverCalled = "never-made" // the id of a call that no transcript makes

	foundIt      = " found what was asked for"
	foundNothing = " found nothing of what was asked for"
)

// report tells, at the end of a run, what its calls found. Like an agent that
// reads its results carelessly it is wrong at first, and mends what it is told.
func (p *player) report(ctx context.Context, run *client.Run, results []*client.Result) error {
	report := hastyReport(results)
	for {
		err := p.tryReport(ctx, run, report)
		var invalid *client.InvalidProgressError
		if !errors.As(err, &invalid) || invalid.RepairsLeft == 0 {
			return err
		}
		p.count(func() { p.played.Repairs++ })
		report.Claims = repaired(report.Claims, invalid.Violations)
	}
}

func (p *player) tryReport(ctx context.Context, run *client.Run, report client.Report) error {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Step)
	defer cancel()
	return run.Report(ctx, report)
}

// hastyReport takes every result for a finding, also those that found nothing.
// Where each found something, it knows of a call that was never made.
func hastyReport(results []*client.Result) client.Report {
	report := client.Report{Step: 1, Final: true}
	wrong := false
	for _, r := range results[:min(len(results), mostClaims)] {
		report.Claims = append(report.Claims, client.Claim{Text: r.Tool + foundIt, Supports: []string{r.ToolCallID}})
		wrong = wrong || r.Evidence == client.NoEvidence
	}
	if !wrong {
		report.Claims = append(report.Claims, client.Claim{Text: "everything else is in order", Supports: []string{neverCalled}})
	}
	return report
}

// repaired mends the claims as the violations say: what rests on a call that
// found nothing becomes negative, and what rests on anything else that does not
// hold is taken back.
func repaired(claims []client.Claim, violations []client.Violation) []client.Claim {
	mended := slices.Clone(claims)
	backed := make([]bool, len(claims))
	for _, v := range violations {
		switch {
		case v.Claim < 0 || v.Claim >= len(claims):
		case v.Code == client.ViolationNoEvidence:
			mended[v.Claim].Text, mended[v.Claim].Negative = strings.TrimSuffix(claims[v.Claim].Text, foundIt)+foundNothing, true
		default:
			backed[v.Claim] = true
		}
	}
	var kept []client.Claim
	for i, claim := range mended {
		if !backed[i] {
			kept = append(kept, claim)
		}
	}
	return kept
}
