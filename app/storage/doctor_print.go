package storage

import (
	"fmt"
	"strings"

	"mailroom/app/command"
	"mailroom/doctor"
	"mailroom/internal/display"
)

func printDiagnosis(con *command.Console, d diagnosis, output command.Format) error {
	if output == command.FormatJSON {
		return con.PrintJSON(d)
	}
	if d.Backup != "" {
		con.Infof("wrote and checked %s", d.Backup)
	}
	if d.Risk != "" {
		con.Infof("%s", d.Risk)
	}
	if err := printReport(con, d.Report); err != nil {
		return err
	}
	if !d.Sound() {
		con.Infof("docs/operations.md explains each finding; the store was not changed")
	}
	return nil
}

// printReport prints one line for each finding, and what was checked.
func printReport(con *command.Console, r doctor.Report) error {
	rows := [][]string{}
	for _, f := range r.Findings {
		rows = append(rows, []string{string(f.Invariant), f.String()})
	}
	if err := con.PrintTable(rows); err != nil {
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
	return con.Printf("%s in %s\n", summary, counts(r))
}

// printFindings prints the findings of an incomplete check to Stderr. The error is the
// result of the command.
func printFindings(con *command.Console, r doctor.Report) {
	for _, f := range r.Findings {
		con.Infof("%s  %s", f.Invariant, display.Line(f.String()))
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
