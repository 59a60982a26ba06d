package tracker

import (
	"strings"
	"unsafe"

	"mailroom"
	"mailroom/internal/jsontext"
)

// Rename replaces the prefix of all ids that begin with from, including those in dependencies and
// comments. It returns the number of renamed issues.
func (t *Tracker) Rename(from, to string, by Signature) (int, error) {
	if err := CheckPrefix(to); err != nil {
		return 0, err
	}
	t.issues.index()
	r := renamer{ids: make(map[string]string, len(t.issues.order)), at: encode(by.At)}
	for _, it := range t.issues.order {
		if rest, ok := strings.CutPrefix(it.ID, from+"-"); ok {
			r.ids[it.ID] = to + "-" + rest
		}
	}
	for id, name := range r.ids {
		if _, also := r.ids[name]; t.issues.has(name) && !also {
			return 0, mailroom.Errorf(mailroom.CodeConflict, "cannot rename %s to %s: that issue exists", id, name)
		}
	}
	was, renamed := t.issues.order, makeSlice[Issue](len(t.issues.order))
	InParts(len(was), func(from, to int) {
		r.lines(t, was[from:to], renamed[from:to])
	})
	t.issues = newIssueSet(t.codec, len(was))
	for i := range renamed {
		t.issues.put(&renamed[i])
	}
	return len(r.ids), nil
}

// renamer replaces ids in lines and leaves everything else unchanged.
type renamer struct {
	ids map[string]string // new id by old id
	at  string            // time of the change, as JSON
}

func (r *renamer) id(old string) string {
	if name, renamed := r.ids[old]; renamed {
		return name
	}
	return old
}

// lines rewrites issues. Their lines share one allocation, because together they are as large as
// the file.
func (r *renamer) lines(t *Tracker, was []*Issue, renamed []Issue) {
	size := 0
	for _, it := range was {
		const more = 64 // for longer ids
		size += len(t.Line(it)) + more
	}
	out := makeSlice[byte](size)[:0]
	ends := make([]int, len(was))
	var parts []field
	for i, it := range was {
		parts, _ = appendFields(parts[:0], t.Line(it)) // parsed before
		out = r.appendLine(out, it.ID, parts)
		ends[i] = len(out)
	}
	text := unsafe.String(unsafe.SliceData(out), len(out)) // nothing else refers to the bytes
	begin := 0
	for i, it := range was {
		renamed[i] = Issue{ID: r.id(it.ID), line: text[begin:ends[i]], number: it.number, cr: it.cr, unchanged: true, lazy: true}
		begin = ends[i]
	}
}

// appendLine appends the line of an issue with these members.
func (r *renamer) appendLine(out []byte, id string, parts []field) []byte {
	name := r.id(id)
	dated := name == id
	before := byte('{')
	add := func(key, raw string) {
		out = append(append(append(append(out, before), key...), ':'), raw...)
		before = ','
	}
	for _, f := range parts {
		switch {
		case f.name == "id":
			add(f.key, encodeText(name))
		case f.name == "updated_at" && name != id:
			add(f.key, r.at)
			dated = true
		case f.name == "dependencies", f.name == "comments":
			add(f.key, "")
			out = r.appendList(out, f.raw, name)
		default:
			add(f.key, f.raw)
		}
	}
	if !dated {
		add(`"updated_at"`, r.at)
	}
	return append(out, '}')
}

// appendList appends a list of dependencies or comments with its ids replaced.
func (r *renamer) appendList(out []byte, raw, issue string) []byte {
	kept := 0
	s := jsontext.Scan(raw)
	s.Open('[')
	for s.More(']') {
		if s.Peek() != '{' {
			s.Value(maxDepth)
			continue
		}
		s.Open('{')
		for s.More('}') {
			name := s.Name()
			if s.Peek() != '"' || name != "issue_id" && name != "depends_on_id" && name != "id" {
				s.Value(maxDepth)
				continue
			}
			begin, id := s.Offset(), issue
			old := s.ReadString()
			if name != "issue_id" {
				id = r.id(old) // the same if it is no issue's, as that of a comment
			}
			if id != old {
				out = append(append(out, raw[kept:begin]...), encodeText(id)...)
				kept = s.Offset()
			}
		}
	}
	return append(out, raw[kept:]...)
}
