package main

import (
	"fmt"
	"strings"

	"mailroom/doctor"
)

func (m *Main) printDiagnosis(d diagnosis, output format) error {
	if output == asJSON {
		return m.printJSON(d)
	}
	if d.Backup != "" {
		m.infof("wrote and checked %s", d.Backup)
	}
	if err := m.printReport(d.Report); err != nil {
		return err
	}
	if !d.Sound() {
		m.infof("docs/operations.md explains each finding; the store was not changed")
	}
	return nil
}

// printReport prints one line for each finding, and what was checked.
func (m *Main) printReport(r doctor.Report) error {
	rows := [][]string{}
	for _, f := range r.Findings {
		rows = append(rows, []string{string(f.Invariant), f.String()})
	}
	if err := m.printTable(rows); err != nil {
		return err
	}
	summary := "no findings"
	switch n := len(r.Findings) + r.More; {
	case n == 1:
		summary = "1 finding"
	case r.More > 0:
		summary = fmt.Sprintf("%d findings (first %d shown)", n, len(r.Findings))
	case n > 1:
		summary = fmt.Sprintf("%d findings", n)
	}
	_, err := fmt.Fprintf(m.Stdout, "%s in %s\n", summary, counts(r))
	return wrapPrintError(err)
}

// printFindings prints the findings of an incomplete check to Stderr. The error is the
// result of the command.
func (m *Main) printFindings(r doctor.Report) {
	for _, f := range r.Findings {
		m.infof("%s  %s", f.Invariant, oneLine(f.String()))
	}
}

func counts(r doctor.Report) string {
	var parts []string
	for _, x := range []struct {
		n         int
		one, many string
	}{
		{r.Threads, "thread", "threads"}, {r.Runs, "run", "runs"}, {r.Entries, "entry", "entries"},
		{r.Tickets, "ticket", "tickets"}, {r.Keys, "key", "keys"}, {r.Workers, "worker", "workers"},
	} {
		word := x.many
		if x.n == 1 {
			word = x.one
		}
		parts = append(parts, fmt.Sprintf("%d %s", x.n, word))
	}
	return strings.Join(parts, ", ")
}
