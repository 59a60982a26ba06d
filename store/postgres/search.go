package postgres

import (
	"slices"
	"strings"
	"time"

	"mailroom/store"
)

const (
	readIndexState = "SELECT last_id, order_name, position, thread, seq, nullif(until, 0) FROM index_state WHERE one = 1"
	// The state is written first, so that another follower waits for it, and then fails.
	putIndexState = `WITH w AS (INSERT INTO index_state AS s VALUES (1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (one) DO UPDATE SET last_id = excluded.last_id, order_name = excluded.order_name,
		position = excluded.position,
			thread = excluded.thread, seq = excluded.seq, until = excluded.until
		WHERE (s.last_id, s.order_name, s.position, s.thread, s.seq, s.until) = ($8, $9, $10, $11, $12, $13)
		RETURNING 1)` + checkRows

	// The entries of all rows are locked first and in order, as by a transaction that drops them: its triggers
	// change the index after that.
	lockIndexed = `SELECT 1 FROM (SELECT DISTINCT u.thread,
			(SELECT e.last_seq FROM entry e WHERE e.thread = u.thread AND e.last_seq >= u.seq
			ORDER BY e.last_seq LIMIT 1) AS last_seq
			FROM unnest($1::bigint[], $2::bigint[]) u (thread, seq)) w
		JOIN entry e ON e.thread = w.thread AND e.last_seq = w.last_seq ORDER BY e.thread, e.last_seq FOR SHARE OF e`
	dropIndexed = `DELETE FROM indexed i USING unnest($1::bigint[], $2::bigint[]) u (thread, seq)
		WHERE i.thread = u.thread AND i.seq = u.seq`
	// An entry that is gone gets no row. Words of a row are joined by spaces.
	putIndexed = `INSERT INTO indexed SELECT u.thread, u.seq, u.content, u.id, string_to_array(u.words, ' ')
		FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[]) u (thread, seq, content, id, words)
		WHERE (SELECT e.first_seq FROM entry e WHERE e.thread = u.thread AND e.last_seq >= u.seq
		ORDER BY e.last_seq LIMIT 1) <= u.seq
		ON CONFLICT (thread, seq) DO UPDATE SET content = excluded.content, id = excluded.id, words = excluded.words`

	countWords = "SELECT count(*) FROM (SELECT 1 FROM indexed WHERE words @> $1::text[] LIMIT $2) w"
	findWords  = `SELECT w.id, t.id, w.content FROM (SELECT id, thread, content FROM indexed
		WHERE words @> $1::text[] OFFSET 0) w
			JOIN thread t ON t.key = w.thread
		WHERE w.id < $2 ORDER BY w.id DESC LIMIT $3`

	// The same with further words. A row must have one of them.
	countAny     = "SELECT count(*) FROM (SELECT 1 FROM indexed WHERE words && $1::text[] LIMIT $2) w"
	countWordsOf = `SELECT count(*) FROM
		(SELECT 1 FROM indexed WHERE words @> $1::text[] AND words && $3::text[] LIMIT $2) w`
	findWordsOf = `SELECT w.id, t.id, w.content
		FROM (SELECT id, thread, content FROM indexed WHERE words @> $1::text[] AND words && $4::text[] OFFSET 0) w
			JOIN thread t ON t.key = w.thread
		WHERE w.id < $2 ORDER BY w.id DESC LIMIT $3`

	// firstWithWords returns the first window that has matches and their number, or -1 for the window at
	// which the time was over. The windows are counted in their order, and only as far as necessary.
	firstWithWords = `SELECT n, matches FROM (SELECT u.n,
		CASE WHEN clock_timestamp() > statement_timestamp() + $4::bigint * interval '1 microsecond' THEN -1
			ELSE (SELECT count(*) FROM (SELECT 1 FROM indexed WHERE words @> (u.name || $1::text[]) LIMIT $3) m) END AS matches
			FROM unnest($2::text[]) WITH ORDINALITY u (name, n) OFFSET 0) w
		WHERE matches <> 0 LIMIT 1`
)

// Windows from countedLevel on are counted before their matches are read and ordered. One request skips up to
// maxSkipped windows.
const (
	countedLevel = 2
	maxOrdered   = 10_000
	maxSkipped   = 16
)

// search answers a query whose field Search is set, and sets the results in s.
func (r reader) search(s *store.Search) error {
	s.State = store.IndexState{}
	err := r.send("read the state of the index", trip{{text: readIndexState, each: func(c *columns) error {
		s.State.Last, s.State.Order = c.Int64(), c.Text()
		s.State.At = store.Position{Commit: c.Int64(), Thread: c.Int64(), Seq: c.Int64()}
		s.State.Until = c.Time()
		return nil
	}}})
	if err != nil {
		return err
	}
	return s.Run(store.Windows{
		Look: func(w store.Window, limit int) ([]store.Match, error) { return r.lookAt(w, s, limit) },
		Skip: func(next store.Window, within time.Duration) (store.Window, error) {
			if len(s.AnyOf) > 0 {
				return r.skipOthers(next, s.AnyOf)
			}
			return r.skip(next, s.Words, within)
		},
	})
}

// lookAt returns the newest matches of a window.
func (r reader) lookAt(w store.Window, s *store.Search, limit int) (found []store.Match, err error) {
	words := s.Words
	if !w.Whole {
		words = append([]string{w.WindowWord()}, words...)
	}
	count, ofCount := countWords, []any{words, int64(maxOrdered)}
	find, ofFind := findWords, []any{words, w.High, int64(limit)}
	if len(s.AnyOf) > 0 {
		count, ofCount = countWordsOf, append(ofCount, s.AnyOf)
		find, ofFind = findWordsOf, append(ofFind, s.AnyOf)
	}
	if w.Level >= countedLevel {
		matches, err := r.countPinned(count, ofCount...)
		switch {
		case err != nil || matches == 0:
			return nil, err
		case matches == maxOrdered:
			return nil, store.ErrManyMatches
		}
	}
	return found, r.queryPinned("search", pinWords, func(c *columns) error {
		found = append(found, store.Match{Row: c.Int64(), Content: store.EntryRef{Thread: c.Text(), Seq: c.Int64()}})
		return nil
	}, find, ofFind...)
}

// countPinned returns the number that a statement counts.
func (r reader) countPinned(text string, args ...any) (n int64, err error) {
	err = r.queryPinned("search", pinWords, func(c *columns) error {
		n = c.Int64()
		return nil
	}, text, args...)
	return n, err
}

// skipOthers makes one window of all older rows if few rows have one of these words.
func (r reader) skipOthers(next store.Window, anyOf []string) (store.Window, error) {
	if next.Level > 0 {
		return next, nil // counted before the first window
	}
	n, err := r.countPinned(countAny, anyOf, int64(store.RareRows+1))
	switch {
	case err != nil || n == 0:
		return store.Window{}, err
	case n <= store.RareRows:
		return store.WholeBelow(next.High), nil
	}
	return next, nil
}

// skip counts the matches of the next windows, one after the other and each longer than the one before,
// until one has any or the time is over. A shortest window is as quick to read as to count.
func (r reader) skip(next store.Window, words []string, within time.Duration) (store.Window, error) {
	if next.Level == 0 {
		return next, nil
	}
	var windows []store.Window
	var names []string
	for w := next; w.High > 1 && len(windows) < maxSkipped; w = w.Next() {
		windows, names = append(windows, w), append(names, w.WindowWord())
	}
	next = windows[len(windows)-1].Next() // if none has any
	return next, r.queryPinned("search", pinWords, func(c *columns) error {
		at, matches := c.Int(), c.Int64()
		next = windows[at-1]
		if (matches < 0 || matches == maxOrdered) && next.Level > 0 {
			next = store.WindowBelow(next.High, next.Level-1)
		}
		return nil
	}, firstWithWords, words, names, int64(maxOrdered), within.Microseconds())
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
