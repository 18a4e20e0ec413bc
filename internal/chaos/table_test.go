//go:build chaos

package chaos

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"runledger/internal/audit"
)

// table is what was seen, a row a fault; it is printed when all is over.
var table results

type results struct {
	mu   sync.Mutex
	rows []row
}

type row struct {
	fault, what string
	pace        pace
	report      *audit.Report
	note        string
	failed      bool
}

func (r *results) add(one row) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows = append(r.rows, one)
}

// write writes the table as it stands in docs/operations.md.
func (r *results) write(w io.Writer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.rows) == 0 {
		return
	}
	fmt.Fprint(w, `
| fault | what happened | strikes | in all | next fact after the break | longest without a fact | next fact after the mend | last open run after the mend | runs | calls | reserved | READY, ERROR | violations | seen |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
`)
	for _, one := range r.rows {
		fmt.Fprintln(w, one)
	}
}

func (r row) String() string {
	verdict := ""
	if r.failed {
		verdict = " **FAILED**"
	}
	cells := []string{
		r.fault + verdict, r.what, fmt.Sprint(r.pace.strikes), seconds(r.pace.lasted), seconds(r.pace.next), seconds(r.pace.standing),
		seconds(r.pace.again), seconds(r.pace.last),
		fmt.Sprint(r.report.Runs), fmt.Sprint(r.report.Calls), fmt.Sprint(r.report.Reserved), fmt.Sprintf("%d, %d", r.report.Ready, r.report.Error),
		fmt.Sprint(r.report.ViolationCount), r.note,
	}
	return "| " + strings.Join(cells, " | ") + " |"
}

func seconds(d time.Duration) string {
	if d <= 0 {
		return "before"
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}
