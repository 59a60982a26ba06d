package bd

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"mailroom/issues/tracker"
)

func number(n int) string { return strconv.Itoa(n) }

// flushSize is the buffer size for output, in bytes.
const flushSize = 64 << 10

// widest is the width up to which a cell widens its column, in characters. One long id in a file of many issues would
// fill the disk with spaces.
const widest = 60

// printRows prints aligned columns.
func (o *output) printRows(rows [][]safeText) error {
	size := 0
	for _, row := range rows {
		size += len(row)
	}
	var wide []int                 // width of each column, in characters
	widths := make([]int, 0, size) // width of each cell
	for _, row := range rows {
		for i, cell := range row {
			if i == len(wide) {
				wide = append(wide, 0)
			}
			n := width(cell)
			if n <= widest {
				wide[i] = max(wide[i], n)
			}
			widths = append(widths, n)
		}
	}
	out := make([]byte, 0, flushSize+flushSize/2)
	for _, row := range rows {
		gap := 0
		for i, cell := range row {
			if cell != "" {
				for range gap {
					out = append(out, ' ')
				}
				out = append(out, cell...)
				gap = 0
			}
			gap += max(wide[i]-widths[i], 0) + len("  ")
		}
		widths = widths[len(row):]
		if out = append(out, '\n'); len(out) >= flushSize {
			if _, err := o.stdout.Write(out); err != nil {
				return err
			}
			out = out[:0]
		}
	}
	_, err := o.stdout.Write(out)
	return err
}

// width returns the number of characters of a cell, without colour codes.
func width(cell safeText) int {
	n := utf8.RuneCountInString(string(cell))
	if strings.IndexByte(string(cell), '\x1b') < 0 {
		return n
	}
	for rest := string(cell); ; {
		_, after, found := strings.Cut(rest, "\x1b[")
		if !found {
			return n
		}
		code, text, _ := strings.Cut(after, "m")
		n -= len("\x1b[") + len(code) + len("m")
		rest = text
	}
}

// printTable prints one line per issue.
func (o *output) printTable(found []*tracker.Issue) error {
	if len(found) == 0 {
		return o.report("No issues.")
	}
	return o.printRows(rowsOf(found, func(it *tracker.Issue) []safeText {
		return []safeText{line(it.ID), o.urgency(it.Priority), line(it.Type), o.status(it.Status), line(it.Assignee),
			line(it.Title)}
	}))
}

// rowsOf returns a row for each issue.
func rowsOf(found []*tracker.Issue, row func(*tracker.Issue) []safeText) [][]safeText {
	rows := make([][]safeText, len(found))
	tracker.InParts(len(found), func(from, to int) {
		for i := from; i < to; i++ {
			rows[i] = row(found[i])
		}
	})
	return rows
}

func (o *output) printBlocked(t *tracker.Tracker, found []*tracker.Issue) error {
	if len(found) == 0 {
		return o.report("No issue is blocked.")
	}
	return o.printRows(rowsOf(found, func(it *tracker.Issue) []safeText {
		return []safeText{line(it.ID), o.urgency(it.Priority), line(it.Title),
			"← " + line(strings.Join(issueIDs(t.BlockedBy(it)), ", "))}
	}))
}

func (o *output) printExplained(t *tracker.Tracker, ready []*tracker.Issue) error {
	if err := o.printTable(ready); err != nil {
		return err
	}
	for _, it := range t.BlockedIssues() {
		if err := o.report("%s is blocked by %s", it.ID, strings.Join(issueIDs(t.BlockedBy(it)), ", ")); err != nil {
			return err
		}
	}
	return nil
}

func (o *output) printTree(nodes []tracker.Node) error {
	var open []bool // open[level]: more siblings follow at that level
	branches := make([]safeText, len(nodes))
	for i, n := range slices.Backward(nodes) {
		for len(open) <= n.Depth {
			open = append(open, false)
		}
		for level := 1; level < n.Depth; level++ {
			branches[i] += map[bool]safeText{true: "│  ", false: "   "}[open[level]]
		}
		if n.Depth > 0 {
			branches[i] += map[bool]safeText{true: "├─ ", false: "└─ "}[open[n.Depth]]
		}
		open = open[:n.Depth+1] // deeper levels belong to another branch
		open[n.Depth] = true
	}
	for i, n := range nodes {
		more := safeText("")
		if n.Cut {
			more = " …"
		}
		if err := o.print(branches[i] + line(n.Issue.ID) + " " + o.urgency(n.Issue.Priority) + " " +
			o.status(n.Issue.Status) + " " + line(n.Issue.Title) + more); err != nil {
			return err
		}
	}
	return nil
}

func (m *Main) printIssues(ctx context.Context, t *tracker.Tracker, found []*tracker.Issue) error {
	for i, it := range found {
		if i > 0 {
			if err := m.out.print(""); err != nil {
				return err
			}
		}
		if err := m.out.printIssue(t, it); err != nil {
			return err
		}
		if err := m.printRun(ctx, it); err != nil {
			return err
		}
	}
	return nil
}

func (o *output) printIssue(t *tracker.Tracker, it *tracker.Issue) error {
	head := o.urgency(it.Priority) + " " + line(it.Type) + " " + o.status(it.Status)
	if it.Assignee != "" {
		head += ", assigned to " + line(it.Assignee)
	}
	lines := []safeText{o.colour(blue, it.ID) + "  " + line(it.Title), head,
		safeText(fmt.Sprintf("created %s, changed %s", day(it.CreatedAt), day(it.UpdatedAt)))}
	if it.Status == tracker.StatusClosed {
		lines = append(lines, safeText(fmt.Sprintf("closed %s: ", day(it.ClosedAt)))+block(it.CloseReason))
	}
	if it.Status == tracker.StatusTombstone {
		lines = append(lines,
			safeText(strings.TrimRight(fmt.Sprintf("deleted %s by %s: %s", day(it.DeletedAt), line(it.DeletedBy),
				block(it.DeleteReason)), ": ")))
	}
	if len(it.Labels) > 0 {
		lines = append(lines, "labels "+line(strings.Join(it.Labels, ", ")))
	}
	for _, part := range []struct {
		name safeText
		text string
	}{
		{"", it.Description}, {"Design\n", it.Design}, {"Acceptance\n", it.Acceptance}, {"Notes\n", it.Notes},
	} {
		if part.text != "" {
			lines = append(lines, "", part.name+block(strings.TrimLeft(part.text, "\n")))
		}
	}
	if len(it.Dependencies) > 0 {
		lines = append(lines, "", "Depends on")
	}
	for _, d := range it.Dependencies {
		title := safeText("")
		if on, err := t.Find(d.On); err == nil {
			title = line(on.Title) + " (" + o.status(on.Status) + ")"
		}
		lines = append(lines, "  "+line(d.On)+" "+line(d.Type)+" "+title)
	}
	if on := t.Dependents(it.ID); len(on) > 0 {
		lines = append(lines, "", "Depended on by "+line(strings.Join(issueIDs(on), ", ")))
	}
	if len(it.Comments) > 0 {
		lines = append(lines, "")
	}
	return o.print(append(lines, comments(it)...)...)
}

// comments returns the comments of an issue as lines.
func comments(it *tracker.Issue) (lines []safeText) {
	for _, c := range it.Comments {
		lines = append(lines, safeText(day(c.CreatedAt))+", "+line(c.Author)+": "+block(c.Text))
	}
	return lines
}

func (o *output) printComments(it *tracker.Issue) error {
	if len(it.Comments) == 0 {
		return o.report("%s has no comments.", it.ID)
	}
	return o.print(comments(it)...)
}

func (o *output) printCount(n int) error {
	if o.json {
		return o.printJSON(map[string]int{"count": n})
	}
	return o.print(safeText(number(n)))
}

func (o *output) printGroups(found []*tracker.Issue, group func(*tracker.Issue) []string) error {
	type count struct {
		Group string `json:"group"`
		Count int    `json:"count"`
	}
	at := map[string]int{}
	for _, it := range found {
		for _, g := range group(it) {
			if g == "" {
				g = "(none)"
			}
			at[g]++
		}
	}
	groups := []count{}
	var rows [][]safeText
	for g, n := range at {
		groups = append(groups, count{g, n})
	}
	slices.SortFunc(groups, func(a, b count) int { return strings.Compare(a.Group, b.Group) })
	for _, g := range groups {
		rows = append(rows, cells(g.Group, number(g.Count)))
	}
	if o.json {
		return o.printJSON(map[string]any{"total": len(found), "groups": groups})
	}
	return o.printRows(append(rows, cells("total", number(len(found)))))
}

func (o *output) printEpics(t *tracker.Tracker, epics []tracker.Epic) error {
	if o.json {
		list := []any{}
		for _, e := range epics {
			list = append(list, map[string]any{
				"epic": issueJSON(t, e.Issue), "total_children": e.Children, "closed_children": e.Closed,
				"eligible_for_close": e.Done(),
			})
		}
		return o.printJSON(list)
	}
	var rows [][]safeText
	for _, e := range epics {
		rows = append(rows, cells(e.Issue.ID, fmt.Sprintf("%d of %d", e.Closed, e.Children), bar(e.Closed, e.Children),
			e.Issue.Title))
	}
	return o.printRows(rows)
}

// bar returns a progress bar.
func bar(n, of int) string {
	const width = 20
	if of == 0 {
		return strings.Repeat("·", width)
	}
	full := n * width / of
	return strings.Repeat("█", full) + strings.Repeat("·", width-full)
}

// count formats a number of things, such as 1 line or 2 lines.
func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return strconv.Itoa(n) + " " + thing
}

func statsCommand(m *Main) *cobra.Command {
	return &cobra.Command{Use: "stats", Aliases: []string{"status"}, Short: "Count issues by status", Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			return m.read(func(t *tracker.Tracker) error {
				s := t.Stats(time.Now())
				if m.out.json {
					return m.out.printJSON(map[string]any{
						"total_issues": s.Total, "open_issues": s.Open, "in_progress_issues": s.InProgress, "closed_issues": s.Closed,
						"blocked_issues": s.Blocked, "deferred_issues": s.Deferred, "ready_issues": s.Ready,
						"tombstone_issues": s.Tombstones,
						"pinned_issues":    s.Pinned, "epics_eligible_for_closure": s.EpicsDone,
						"average_lead_time_hours": s.LeadTime.Hours(),
					})
				}
				var rows [][]safeText
				for _, r := range []struct {
					name string
					n    int
				}{
					{"open", s.Open}, {"in progress", s.InProgress}, {"closed", s.Closed}, {"ready", s.Ready}, {"blocked", s.Blocked},
				} {
					rows = append(rows, cells(r.name, number(r.n), bar(r.n, s.Total)))
				}
				return m.out.printRows(append(rows, cells("all", number(s.Total), "")))
			})
		}}
}
