package sqlstore

import "mailroom/store"

// Blobs returns the SELECT of the rows of blobs of a thread that q selects: with a name, the one of this name.
func Blobs(thread, name string, q *store.BlobQuery) *Select {
	s := &Select{}
	s.Add("SELECT b.agent, b.name, b.upload, b.size, b.digest, b.written_at FROM blob b")
	s.Cond("b.thread = (SELECT key FROM thread WHERE id = ?)", thread)
	s.Equal("b.agent", q.Agent)
	switch {
	case name != "":
		s.Cond("b.name = ?", name)
		return s
	case q.Agent == "" && q.After != (store.BlobRef{}):
		s.Cond("(b.agent, b.name) > (?, ?)", q.After.Agent, q.After.Name)
	case q.After.Name != "":
		s.Cond("b.name > ?", q.After.Name)
	}
	if q.Prefix != "" {
		s.Cond("b.name >= ?", q.Prefix)
		if end := PrefixEnd(q.Prefix); end != "" {
			s.Cond("b.name < ?", end)
		}
	}
	s.Add(" ORDER BY b.agent, b.name")
	s.Limit(q.Limit)
	return s
}

// PrefixEnd returns the first text behind all texts with a prefix, in the order of bytes, or "". It
// is valid UTF-8: it has the next code point in place of the prefix's last one.
func PrefixEnd(prefix string) string {
	runes := []rune(prefix)
	for i := len(runes) - 1; i >= 0; i-- {
		next := runes[i] + 1
		if next == 0xD800 {
			next = 0xE000 // behind the surrogates
		}
		if next <= 0x10FFFF {
			return string(runes[:i]) + string(next)
		}
	}
	return ""
}
