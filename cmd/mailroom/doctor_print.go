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
		m.infof("wrote %s and checked it", d.Backup)
	}
	if err := m.printReport(d.Report); err != nil {
		return err
	}
	if !d.Sound() {
		m.infof("what each name means is in docs/operations.md; the store was not changed")
	}
	return nil
}

// printReport prints a line per finding, and what was looked at.
func (m *Main) printReport(r doctor.Report) error {
	rows := [][]string{}
	for _, f := range r.Findings {
		rows = append(rows, []string{string(f.Invariant), f.String()})
	}
	if err := m.printTable(rows); err != nil {
		return err
	}
	said := "nothing is wrong"
	switch n := len(r.Findings) + r.More; {
	case n == 1:
		said = "1 finding"
	case r.More > 0:
		said = fmt.Sprintf("%d findings, the first %d are shown", n, len(r.Findings))
	case n > 1:
		said = fmt.Sprintf("%d findings", n)
	}
	_, err := fmt.Fprintf(m.Stdout, "%s in %s\n", said, counts(r))
	return wrapPrintError(err)
}

// printFindings prints what was found before the check broke off, as talk: its
// result is the error.
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
