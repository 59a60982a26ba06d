package tracker

import (
	"fmt"
	"slices"
	"strings"
)

// A program that keeps issues in a database backs it up as one file of lines for each table (beads of early 2026,
// .beads/backup). An issue has only its own columns there: its dependencies, labels and comments are rows of other
// files.

// Tables are the files of such a backup beside the file of the issues. An absent one is "".
type Tables struct{ Dependencies, Labels, Comments string }

// JoinTables returns the issues of a backup as the lines of an issue file, and how many rows of the tables it added
// to these lines. Rows whose issue is not in the backup, or that cannot be read, are left out and described.
func JoinTables(issues string, rows Tables) (joined string, added int, left []string) {
	lists := map[string]map[string][]string{} // elements by member and issue
	for _, table := range []struct{ member, text string }{{"dependencies", rows.Dependencies}, {"labels", rows.Labels},
		{"comments", rows.Comments}} {
		lists[table.member] = map[string][]string{}
		number := 0
		for line := range strings.Lines(table.text) {
			number++
			if line = strings.TrimSpace(line); line == "" {
				continue
			}
			element, id := line, textOf(line, "issue_id")
			if table.member == "labels" {
				element = encodeText(textOf(line, "label"))
			}
			if id == "" || element == `""` {
				left = append(left, fmt.Sprintf("line %d of %s.jsonl: no row of an issue", number, table.member))
				continue
			}
			lists[table.member][id] = append(lists[table.member][id], element)
		}
	}
	var out strings.Builder
	for line := range strings.Lines(issues) {
		line = strings.TrimSpace(line)
		if parts, err := fields(line); err == nil {
			id := textOf(line, "id")
			parts = withoutColumns(parts)
			for _, member := range []string{"labels", "dependencies", "comments"} {
				elements := lists[member][id]
				if len(elements) == 0 || slices.ContainsFunc(parts, func(f field) bool { return f.name == member }) {
					continue // the row has a list of its own: it is no row of a table
				}
				parts = append(parts, field{member, encodeText(member), "[" + strings.Join(elements, ",") + "]"})
				added += len(elements)
				delete(lists[member], id)
			}
			line = encodeObject(parts)
		}
		out.WriteString(line + "\n")
	}
	for _, member := range []string{"dependencies", "labels", "comments"} {
		for id, elements := range lists[member] {
			left = append(left, fmt.Sprintf("%d rows of %s.jsonl for %s, which is not in the backup, or has a list of its own",
				len(elements), member, id))
		}
	}
	slices.Sort(left)
	return out.String(), added, left
}

// withoutColumns converts the members of a row to those of an issue file. A database also has columns without a
// value, numbers for truth values and objects as text; other programs refuse an issue file with them.
func withoutColumns(parts []field) []field {
	required := []string{"id", "title", "description", "status", "priority", "issue_type"}
	truths := []string{"ephemeral", "pinned", "is_template", "crystallizes", "no_history"}
	var kept []field
	for _, f := range parts {
		var text string
		switch {
		case slices.Contains(required, f.name):
		case slices.Contains([]string{"null", `""`, "0", `"{}"`, `"[]"`}, f.raw):
			continue
		case f.raw == "1" && slices.Contains(truths, f.name):
			f.raw = "true"
		case slices.Contains([]string{nameMetadata, "waiters"}, f.name) && readJSON(f.raw, &text) == nil:
			var value any
			if readJSON(text, &value) == nil {
				f.raw = text
			}
		}
		kept = append(kept, f)
	}
	return kept
}

// textOf returns the text member `name` of a JSON object, "" if it has none.
func textOf(line, name string) (text string) {
	parts, err := fields(line)
	if err != nil {
		return ""
	}
	for _, f := range parts {
		if f.name == name {
			_ = readJSON(f.raw, &text) // a member of another type is no text
		}
	}
	return text
}
