package bd

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/cmd/internal/bd/bench"
)

// benchCommand measures this very program.
func (m *Main) benchCommand() *cobra.Command {
	b := bench.Bench{}
	cmd := &cobra.Command{
		Use: "bench", Short: "Measure this program on this machine, as whole processes", Args: noArgs,
		Long: `Measure this program on this machine, as whole processes.

It makes trackers in a folder for temporary files, runs every command on them again and
again, and prints how long the processes took, beside what the disk takes for a bare write
of the same size and what the start of a process costs. It ends by itself and leaves nothing.`,
	}
	flags := cmd.Flags()
	flags.IntVar(&b.Rounds, "rounds", 15, "how often each command runs on each tracker")
	flags.IntSliceVar(&b.Sizes, "issues", []int{1000, 10_000}, "sizes of the trackers")
	flags.IntVar(&b.Crowd, "crowd", 50, "processes at once")
	flags.IntVar(&b.Import, "import", 5000, "issues of the file that is imported")
	flags.StringVar(&b.Dir, "data", "", "a folder on the disk that is meant (default the one for temporary files)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		for _, n := range append([]int{b.Rounds, b.Crowd, b.Import}, b.Sizes...) {
			if n < 1 {
				return mailroom.Errorf(mailroom.CodeInvalid, "%d is too few to measure", n)
			}
		}
		if b.Dir != "" {
			b.Dir = m.at(b.Dir)
		}
		program, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find this program: %w", err)
		}
		if b.Program = []string{program}; m.Name == "issue" {
			b.Program = append(b.Program, m.Name)
		}
		b.Tell = func(format string, args ...any) {
			if !m.quiet {
				m.say(format, args...)
			}
		}
		report, err := b.Run(cmd.Context())
		if err != nil {
			return err
		}
		if m.json {
			return m.printJSON(report)
		}
		return m.printBench(report)
	}
	return cmd
}

func (m *Main) printBench(r bench.Report) error {
	ms := func(v float64) string { return fmt.Sprintf("%.1f", v) }
	rows := [][]shown{cells("command", "issues", "file", "least ms", "median ms", "p95 ms", "of it disk")}
	for _, c := range r.Commands {
		row := cells(c.Command, number(c.Issues), fmt.Sprintf("%.1f MB", float64(c.Size)/1e6), ms(c.Least), ms(c.Median), ms(c.P95))
		if c.Disk > 0 {
			row = append(row, line(ms(c.Disk)))
		}
		rows = append(rows, row)
	}
	if err := m.printRows(rows); err != nil {
		return err
	}
	rows = [][]shown{cells("", "", "", ""), cells("together", "issues", "took ms", "kept", "bare writes", "bare starts")}
	for _, c := range r.Crowds {
		rows = append(rows, cells(c.What, number(c.Issues), ms(c.Took), number(c.Kept), ms(c.Disk), ms(c.Starts)))
	}
	rows = append(rows, cells(""), cells("other files at the end", "issues", "bytes"))
	for _, f := range r.Grown {
		rows = append(rows, cells(f.Name, number(f.Issues), fmt.Sprint(f.Size)))
	}
	return m.printRows(rows)
}
