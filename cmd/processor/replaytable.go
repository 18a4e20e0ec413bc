package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"runledger/internal/replay"
)

// writeComparison writes what would have been as tables for a person to read.
func writeComparison(out io.Writer, c *replay.Comparison) error {
	fmt.Fprintf(out, "%s decided again\n\n", plural(c.Events, "event"))
	const line = "%-10s%-28s%10v%10v%12s\n"
	rows := func(title string, rows []replay.Row) {
		fmt.Fprintf(out, line, title, "", "recorded", "would be", "difference")
		for _, r := range rows {
			fmt.Fprintf(out, line, r.What, r.Code, r.Recorded, r.WouldBe, signed(r.Difference()))
		}
	}
	rows("what", c.Codes)
	if len(c.Limits) > 0 {
		fmt.Fprintln(out)
		rows("ended by", c.Limits)
	}
	fmt.Fprint(out, "\nby agent: recorded → would be\n\n")
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "agent\truns started\tcalls reserved\tcalls refused\tcalls ready\truns without success\n")
	for _, a := range c.Agents {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", a.Agent, pair(a.Starts), pair(a.Reserved), pair(a.Refused), pair(a.Ready), pair(a.Failures))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if c.FellAway+c.NoResult+c.Before+c.Skipped+c.Aged > 0 {
		fmt.Fprintln(out)
	}
	note := func(n int64, what, text string) {
		if n > 0 {
			fmt.Fprintf(out, "%s %s\n", plural(n, what), text)
		}
	}
	note(c.FellAway, "result", "fell away, of calls that would not have been reserved")
	note(c.NoResult, "call", "would have been reserved: nobody knows with which results")
	note(c.Before, "run", "began before, and taken as recorded then")
	note(c.Skipped, "run", "left out from a fact on that cannot be read: \"processor replay verify\" tells what is wrong")
	note(c.Aged, "event", "aged out of IN before their turn came")
	return nil
}

func signed(n int64) string {
	if n == 0 {
		return "="
	}
	return fmt.Sprintf("%+d", n)
}

func pair(p replay.Pair) string {
	if p.Recorded == p.WouldBe {
		return fmt.Sprint(p.Recorded)
	}
	return fmt.Sprintf("%d → %d", p.Recorded, p.WouldBe)
}
