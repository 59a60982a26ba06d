package format

import (
	"bytes"
	"slices"

	"mailroom"
	"mailroom/entry"
	"mailroom/store"
)

// AppendEntries appends consecutive entries of one thread to lines, as the lines of one row.
func AppendEntries(lines []byte, list []mailroom.Entry) ([]byte, error) {
	size := 0
	for i, e := range list {
		raw := e.Raw
		if e.Thread != list[0].Thread || e.Seq != list[0].Seq+int64(i) {
			return nil, mailroom.Errorf(mailroom.CodeInternal,
				"entry %d of thread %q does not follow in the entries of thread %q from %d",
				e.Seq, e.Thread, list[0].Thread, list[0].Seq)
		}
		if len(raw) == 0 || bytes.IndexByte(raw, '\n') >= 0 {
			return nil, mailroom.Errorf(mailroom.CodeInternal, "entry %d of thread %q is not one line of JSON", e.Seq, e.Thread)
		}
		size += len(raw) + 1
	}
	lines = slices.Grow(lines, size)
	for i, e := range list {
		if i > 0 {
			lines = append(lines, '\n')
		}
		lines = append(lines, e.Raw...)
	}
	return lines, nil
}

// SplitEntries decodes the entries of one row that match q, in its order. It skips lines outside of
// the bounds of q without decoding them. The entries do not refer to the row.
func SplitEntries(row []byte, first int64, q store.EntryQuery) ([]mailroom.Entry, error) {
	var found []mailroom.Entry
	seq := first
	lines, err := clearLines(row)
	if err != nil {
		return nil, err
	}
	whole := q.Bytes <= 0 || len(lines) <= q.Bytes
	if whole && len(row) > 0 && row[0] != shrunk {
		lines = bytes.Clone(lines) // the caller reuses the row's memory
	}
	for line := range bytes.SplitSeq(lines, []byte{'\n'}) {
		if q.After < seq && seq < q.Before {
			if !whole { // an entry must not keep the other lines of its row in memory
				line = bytes.Clone(line)
			}
			e, err := entry.Parse(line)
			if err != nil {
				return nil, err
			}
			if (len(q.Kinds) == 0 || slices.Contains(q.Kinds, e.Kind)) && (q.Run == "" || e.Run == q.Run) {
				found = append(found, e)
			}
		}
		seq++
	}
	if q.Backward {
		slices.Reverse(found)
	}
	return found, nil
}

// PickEntries decodes those entries of one row that are in wanted. The entries do not refer to the row.
func PickEntries(thread string, first int64, row []byte, wanted map[store.EntryRef]bool) ([]mailroom.Entry, error) {
	var found []mailroom.Entry
	lines, err := clearLines(row)
	if err != nil {
		return nil, err
	}
	seq := first
	for line := range bytes.SplitSeq(lines, []byte{'\n'}) {
		if wanted[store.EntryRef{Thread: thread, Seq: seq}] {
			e, err := entry.Parse(bytes.Clone(line))
			if err != nil {
				return nil, err
			}
			found = append(found, e)
		}
		seq++
	}
	return found, nil
}

// CutEntries returns, in clear, the lines of a row that begins at first without those of the entries
// below seq.
func CutEntries(row []byte, first, seq int64) ([]byte, error) {
	lines, err := clearLines(row)
	for ; first < seq; first++ {
		_, lines, _ = bytes.Cut(lines, []byte{'\n'})
	}
	return lines, err
}
