package tracker

import (
	"slices"
	"strings"
	"unsafe"

	"mailroom"
	"mailroom/internal/jsontext"
)

// Rename replaces the prefix of all ids that begin with from, wherever an issue names one: in dependencies, comments
// and the members of [references], and as a whole word in texts. It returns the number of renamed issues.
func (t *Tracker) Rename(from, to string, by Signature) (int, error) {
	if err := CheckPrefix(to); err != nil {
		return 0, err
	}
	t.issues.index()
	r := renamer{ids: make(map[string]string, len(t.issues.order)), prefix: from + "-", at: encode(by.At)}
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
	ids    map[string]string // new id by old id
	prefix string            // prefix of all old ids
	at     string            // time of the change, as JSON
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
		const more = 64 // bytes for longer ids
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
	text := unsafe.String(unsafe.SliceData(out), len(out)) // safe: no other value refers to the bytes
	begin := 0
	for i, it := range was {
		renamed[i] = Issue{ID: r.id(it.ID), line: text[begin:ends[i]], number: it.number, cr: it.cr, unchanged: true,
			lazy: true}
		begin = ends[i]
	}
}

// appendLine appends to out the line of an issue with these members.
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
		case slices.Contains(references(), f.name):
			add(f.key, redirectMember(f.raw, r.id))
		case slices.Contains(texts(), f.name):
			add(f.key, r.text(f.raw))
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
			if s.Peek() != '"' || !slices.Contains([]string{"issue_id", "depends_on_id", "id", "thread_id", "text"}, name) {
				s.Value(maxDepth)
				continue
			}
			begin := s.Offset()
			old := s.ReadString()
			id := r.id(old) // unchanged if it is the id of no issue, such as a comment
			switch name {
			case "issue_id":
				id = issue
			case "text":
				id = r.words(old)
			}
			if id != old {
				out = append(append(out, raw[kept:begin]...), encodeText(id)...)
				kept = s.Offset()
			}
		}
	}
	return append(out, raw[kept:]...)
}

// texts are the members in which people mention issues.
func texts() []string {
	return []string{"title", "description", "design", "acceptance_criteria", "notes", "close_reason", "delete_reason"}
}

// text returns a text member with the ids in it replaced.
func (r *renamer) text(raw string) string {
	if !strings.HasPrefix(raw, `"`) {
		return raw // the member is not a text
	}
	old := jsontext.Scan(raw)
	was := old.ReadString()
	if text := r.words(was); text != was {
		return encodeText(text)
	}
	return raw
}

// words replaces the ids that stand in a text as whole words. Part of a longer word, such as the name of a branch or a
// path, is no mention of an issue.
func (r *renamer) words(text string) string {
	var out strings.Builder
	kept, at := 0, 0
	for {
		i := strings.Index(text[at:], r.prefix)
		if i < 0 {
			break
		}
		begin := at + i
		end := begin + len(r.prefix)
		for end < len(text) && (isWord(text[end]) || text[end] == '.') {
			end++
		}
		at = end
		if begin > 0 && (isWord(text[begin-1]) || text[begin-1] == '/' || text[begin-1] == '.') {
			continue
		}
		word := strings.TrimRight(text[begin:end], ".") // the end of a sentence
		if name, renamed := r.ids[word]; renamed && !strings.HasPrefix(text[begin+len(word):], "/") {
			out.WriteString(text[kept:begin] + name)
			kept = begin + len(word)
		}
	}
	if kept == 0 {
		return text
	}
	return out.String() + text[kept:]
}

// isWord reports whether a character can be part of an id. Bytes of letters outside ASCII count as part of an id.
func isWord(c byte) bool {
	return c == '-' || c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}
