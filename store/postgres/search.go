package postgres

import (
	"cmp"
	"slices"
	"strings"

	"mailroom/store"
)

const (
	readIndexState = "SELECT last_id, order_name, position, thread, seq, nullif(until, 0) FROM index_state WHERE one = 1"
	// The state is written first, so that another follower waits for it, and then fails.
	putIndexState = `WITH w AS (INSERT INTO index_state AS s VALUES (1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (one) DO UPDATE SET last_id = excluded.last_id, order_name = excluded.order_name, position = excluded.position,
			thread = excluded.thread, seq = excluded.seq, until = excluded.until
		WHERE (s.last_id, s.order_name, s.position, s.thread, s.seq, s.until) = ($8, $9, $10, $11, $12, $13) RETURNING 1)` + checkRows

	// The entries of all rows are locked first and in order, as by a transaction that drops them: its triggers
	// change the index after that.
	lockIndexed = `SELECT 1 FROM (SELECT DISTINCT u.thread,
			(SELECT e.last_seq FROM entry e WHERE e.thread = u.thread AND e.last_seq >= u.seq ORDER BY e.last_seq LIMIT 1) AS last_seq
			FROM unnest($1::bigint[], $2::bigint[]) u (thread, seq)) w
		JOIN entry e ON e.thread = w.thread AND e.last_seq = w.last_seq ORDER BY e.thread, e.last_seq FOR SHARE OF e`
	dropIndexed = "DELETE FROM indexed i USING unnest($1::bigint[], $2::bigint[]) u (thread, seq) WHERE i.thread = u.thread AND i.seq = u.seq"
	// An entry that is gone gets no row. Words of a row are joined by spaces.
	putIndexed = `INSERT INTO indexed SELECT u.thread, u.seq, u.content, u.id, string_to_array(u.words, ' ')
		FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[]) u (thread, seq, content, id, words)
		WHERE (SELECT e.first_seq FROM entry e WHERE e.thread = u.thread AND e.last_seq >= u.seq ORDER BY e.last_seq LIMIT 1) <= u.seq
		ON CONFLICT (thread, seq) DO UPDATE SET content = excluded.content, id = excluded.id, words = excluded.words`

	countWords = "SELECT count(*) FROM (SELECT 1 FROM indexed WHERE words @> $1::text[] LIMIT $2) w"
	findWords  = `SELECT w.id, t.id, w.content FROM (SELECT id, thread, content FROM indexed WHERE words @> $1::text[] OFFSET 0) w
			JOIN thread t ON t.key = w.thread
		WHERE w.id < $2 ORDER BY w.id DESC LIMIT $3`
)

// Windows from countedLevel on are counted before their matches are read and ordered.
const (
	countedLevel = 2
	maxOrdered   = 10_000
)

// search answers a query with Search.
func (r reader) search(s *store.Search) error {
	s.State = store.IndexState{}
	err := r.send("read the state of the index", trip{{text: readIndexState, each: func(c *columns) error {
		s.State.Last, s.State.Order = c.int64(), c.text()
		s.State.At = store.Position{Commit: c.int64(), Thread: c.int64(), Seq: c.int64()}
		s.State.Until = c.time()
		return nil
	}}})
	if err != nil {
		return err
	}
	return s.Look(func(w store.Window, limit int) (found []store.Match, err error) {
		words := append([]string{w.WindowWord()}, s.Words...)
		if w.Level >= countedLevel {
			many := false
			err = r.sendPinned("search", pinWords, trip{{text: countWords, args: []any{words, int64(maxOrdered)}, each: func(c *columns) error {
				many = c.int64() == maxOrdered
				return nil
			}}})
			if err != nil || many {
				return nil, cmp.Or(err, store.ErrManyMatches)
			}
		}
		err = r.sendPinned("search", pinWords, trip{{text: findWords, args: []any{words, w.High, int64(limit)}, each: func(c *columns) error {
			found = append(found, store.Match{Row: c.int64(), Content: store.EntryRef{Thread: c.text(), Seq: c.int64()}})
			return nil
		}}})
		return found, err
	})
}

func (w *writing) writeIndex(x *store.Indexing) {
	if x == nil {
		return
	}
	w.trip.add(nil, putIndexState, append(append([]any{1}, stateValues(x.After)...), stateValues(x.Before)...)...)
	if all := slices.Concat(x.Drop, x.Rows); len(all) > 0 {
		threads, seqs := indexedEntries(all)
		w.trip.add(nil, lockIndexed, threads, seqs)
	}
	if len(x.Drop) > 0 {
		threads, seqs := indexedEntries(x.Drop)
		w.trip.add(nil, dropIndexed, threads, seqs)
	}
	if len(x.Rows) == 0 {
		return
	}
	threads, seqs := indexedEntries(x.Rows)
	var contents, ids []int64
	var words []string
	id := x.After.Last - int64(len(x.Rows))
	for _, row := range x.Rows {
		id++
		contents, ids = append(contents, row.Content), append(ids, id)
		words = append(words, strings.Join(append(store.WindowWords(id), row.Words...), " "))
	}
	w.trip.add(nil, putIndexed, threads, seqs, contents, ids, words)
}

// indexedEntries returns the entries of rows, one array per column.
func indexedEntries(rows []store.IndexRow) (threads, seqs []int64) {
	for _, row := range rows {
		threads, seqs = append(threads, row.Thread), append(seqs, row.Seq)
	}
	return threads, seqs
}

// stateValues returns the values of the columns of index_state.
func stateValues(s store.IndexState) []any {
	return []any{s.Last, s.Order, s.At.Commit, s.At.Thread, s.At.Seq, micros(s.Until)}
}
