package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"runledger/internal/replay"
)

// writeComparison writes what would have been as tables for a person to read.
func writeComparison(out io.Writer, c *replay.Comparison) error {
	fmt.Fprintf(out, "%d events decided again\n\n", c.Events)
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
	if c.FellAway+c.NoResult+c.Before > 0 {
		fmt.Fprintln(out)
	}
	note := func(n int64, text string) {
		if n > 0 {
			fmt.Fprintf(out, "%d %s\n", n, text)
		}
	}
	note(c.FellAway, "results fell away: their calls would not have been reserved")
	note(c.NoResult, "calls would have been reserved that were not, so nobody knows their results")
	note(c.Before, "runs began before, and stand as they were recorded then")
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
