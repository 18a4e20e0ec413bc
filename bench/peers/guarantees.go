package main

import (
	"fmt"
	"io"
)

// guarantee is what runledger promises of a call, and what each tool gives of
// it as it is used here. An answer begins with yes, partly or no.
type guarantee struct {
	Key  string // in JSON
	Text string
	By   map[string]string // tool → answer
}

func guarantees() []guarantee {
	row := func(key, text, runledger, watermill, asynq, temporal string) guarantee {
		return guarantee{key, text, map[string]string{
			toolRunledger: runledger, toolWatermill: watermill, toolAsynq: asynq, toolTemporal: temporal,
		}}
	}
	return []guarantee{
		row("at_most_once", "a tool runs at most once",
			"yes: an executor claims the dispatch before it runs",
			"partly: while Redis remembers the mark that is set before it runs",
			"partly: with no retries; what a shutdown cuts off is queued and runs again, as does what Redis forgot",
			"yes: with one attempt a call"),
		row("loss_is_told", "a call whose executor is lost is told",
			"yes: TOOL_TIMEOUT by the call's deadline",
			"no: redelivery finds the mark, and the message is dropped in silence",
			"partly: archived one to two minutes after the worker was last heard of; whoever asked has to look",
			"yes: a start-to-close timeout"),
		row("decided_once", "an intent is decided once, and its id is not used twice",
			"yes: for the life of the run, whatever Redis forgets",
			"partly: while the mark is kept in Redis; JetStream's own message ids last two minutes",
			"partly: while the completed task is kept in Redis",
			"yes: while the namespace keeps the closed workflow"),
		row("budget", "a run's budgets are never passed",
			"yes: a reservation is a fenced fact",
			"no: own code", "no: own code",
			"partly: own code; the workflow of a run is its only writer, so it can hold one"),
		row("ordered_facts", "the history of a run is in order, without gaps",
			"yes", "no: redelivery changes the order of messages", "no: tasks have no history",
			"partly: yes for a run that is one workflow; a call that is one has a history of its own, a standalone activity has none"),
		row("replayable", "state is rebuilt from the history",
			"yes: of any length",
			"no: topics can be read again, what they amount to is own code", "no",
			"partly: by replay of a workflow, up to 51,200 events, then own code continues as new"),
		row("tamper_evident", "a history that was altered shows it",
			"yes: each fact has the digest of the one before", "no", "no", "no"),
		row("lifecycle", "a record settles once, as READY or ERROR",
			"yes: in the rules, and again where it is written",
			"no: own code", "partly: pending, active, completed or archived; a result may be overwritten until then",
			"yes: completed, failed or timed out"),
		row("late_results", "a result that comes too late changes nothing, and is told",
			"yes: tool.late", "no: it is settled like any other",
			"partly: a late completion is refused, a late result is stored; not told", "partly: it is refused; not told"),
		row("deadlines", "a call and a run end by their deadlines",
			"yes", "no: a message that is not acknowledged comes again", "partly: of a task; there are no runs", "yes"),
		row("cancel", "a run is cancelled, with its open calls",
			"yes: they settle at once, executors are told", "no", "partly: of a task, as a signal that may get lost",
			"yes: an executor hears of it by its heartbeat"),
		row("safe_result", "the agent gets a bounded, projected result",
			"yes", "no: own code", "no: own code", "no: own code"),
		row("told", "whoever asked is told",
			"yes: facts, and a gap in them shows", "yes: by a topic, at least once", "no: it has to ask for the task", "yes: a long poll"),
		row("speaker", "who speaks is made true by the server",
			"yes: accounts and permissions of NATS", "no: own configuration", "no", "partly: of a namespace"),
	}
}

// guaranteesOf is what one tool gives, by key.
func guaranteesOf(tool string) map[string]string {
	of := make(map[string]string)
	for _, g := range guarantees() {
		of[g.Key] = g.By[tool]
	}
	return of
}

// writeGuarantees writes the table of README.md.
func writeGuarantees(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "| guarantee | runledger | Watermill | asynq | Temporal |\n|---|---|---|---|---|\n"); err != nil {
		return err
	}
	for _, g := range guarantees() {
		_, err := fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n", g.Text,
			g.By[toolRunledger], g.By[toolWatermill], g.By[toolAsynq], g.By[toolTemporal])
		if err != nil {
			return err
		}
	}
	return nil
}
