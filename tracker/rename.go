package tracker

import (
	"strings"

	"mailroom"
)

// Rename gives all ids that begin with one prefix another, in dependencies and
// comments too. It returns how many.
func (t *Tracker) Rename(from, to string, by By) (int, error) {
	if err := CheckPrefix(to); err != nil {
		return 0, err
	}
	t.issues.index()
	r := renaming{ids: make(map[string]string, len(t.issues.order)), at: encode(by.At)}
	for _, it := range t.issues.order {
		if rest, ok := strings.CutPrefix(it.ID, from+"-"); ok {
			r.ids[it.ID] = to + "-" + rest
		}
	}
	for id, name := range r.ids {
		if _, also := r.ids[name]; t.issues.has(name) && !also {
			return 0, mailroom.Errorf(mailroom.Conflict, "%s cannot become %s, which is another issue", id, name)
		}
	}
	was, renamed := t.issues.order, room[Issue](len(t.issues.order))
	InParts(len(was), func(from, to int) {
		var parts []field
		for i, it := range was[from:to] {
			var line string
			line, parts = r.line(it.ID, t.Line(it), parts)
			renamed[from+i] = Issue{ID: r.id(it.ID), line: line, asRead: true, late: true}
		}
	})
	t.issues = newShelf(t.codec, len(was))
	for i := range renamed {
		t.issues.put(&renamed[i])
	}
	return len(r.ids), nil
}

// renaming changes ids where lines have them, and nothing else of them.
type renaming struct {
	ids map[string]string // new ones by old ones
	at  string            // when, as JSON
}

func (r *renaming) id(old string) string {
	if name, renamed := r.ids[old]; renamed {
		return name
	}
	return old
}

// line is that of an issue. It takes room for its members, and gives it back.
func (r *renaming) line(id, line string, room []field) (string, []field) {
	parts, err := appendFields(room[:0], line)
	if err != nil {
		panic(err) // it was read before
	}
	name := r.id(id)
	own := func(string) string { return name }
	dated := name == id
	for i := range parts {
		switch f := &parts[i]; f.name {
		case "id":
			f.raw = encodeText(name)
		case "updated_at":
			if name != id {
				f.raw, dated = r.at, true
			}
		case "dependencies":
			f.raw = patchedList(f.raw, func(d string) string { return patched(patched(d, "issue_id", own), "depends_on_id", r.id) })
		case "comments":
			f.raw = patchedList(f.raw, func(c string) string { return patched(c, "issue_id", own) })
		}
	}
	if !dated {
		parts = append(parts, field{key: `"updated_at"`, raw: r.at})
	}
	return joined(parts), parts
}

// patchedList is a list, as it was read, with what patch makes of its elements.
func patchedList(raw string, patch func(element string) string) string {
	if !strings.HasPrefix(raw, "[") {
		return raw
	}
	var out strings.Builder
	out.Grow(len(raw))
	kept := 0
	s := scanner{text: raw}
	s.open('[')
	for first := true; s.more(']', first); first = false {
		begin := s.at
		out.WriteString(raw[kept:begin])
		out.WriteString(patch(s.value(0)))
		kept = s.at
	}
	out.WriteString(raw[kept:])
	return out.String()
}

// patched is an object, as it was read, with what change makes of a text that it
// has under a name.
func patched(raw, name string, change func(string) string) string {
	s := scanner{text: raw}
	s.open('{')
	for first := true; s.more('}', first); first = false {
		if s.name() != name || s.peek() != '"' {
			s.value(0)
			continue
		}
		begin := s.at
		old := s.string()
		if text := change(old); text != old && !s.bad {
			return raw[:begin] + encodeText(text) + raw[s.at:]
		}
	}
	return raw
}
