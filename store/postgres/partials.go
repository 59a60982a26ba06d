package postgres

import (
	"mailroom/store"
	"mailroom/store/internal/sqlstore"
)

const (
	putPartials = `WITH w AS (INSERT INTO partial (run, start, attempt, message, content)
		SELECT r.key, u.start, u.attempt, u.message, u.content
		FROM unnest($2::text[], $3::bigint[], $4::bigint[], $5::text[], $6::bytea[])
			u (run, start, attempt, message, content)
			JOIN run r ON r.id = u.run
		ON CONFLICT (run, start) DO UPDATE SET attempt = excluded.attempt, message = excluded.message,
		content = excluded.content RETURNING 1)` + checkRows
	dropPartials = "DELETE FROM partial p USING run r WHERE r.id = ANY ($1::text[]) AND p.run = r.key"
)

// Partials implements [store.Reader].
func (r reader) Partials(runs ...string) ([]store.Partial, error) {
	var s sqlstore.Select
	s.Add(`SELECT t.id, r.id, p.attempt, p.message, p.start, p.content FROM run r JOIN thread t ON t.key = r.thread
		JOIN partial p ON p.run = r.key WHERE r.id = ANY (?::text[]) ORDER BY p.run, p.start`, sqlstore.Distinct(runs))
	return list(r, "read partials", &s, 0, 0, func(c *columns) (store.Partial, error) {
		return store.Partial{
			Thread: c.Text(), Run: c.Text(), Attempt: c.Int(), Message: c.Text(), Offset: c.Int(), Text: c.Text(),
		}, nil
	})
}

func (w *writing) writePartials(partials []store.Partial) {
	type place struct {
		run   string
		start int
	}
	rows := lastOfEach(partials, func(p store.Partial) place { return place{p.Run, p.Offset} })
	var runs, messages []string
	var starts, attempts []int64
	var contents [][]byte
	for _, p := range rows {
		runs, messages, contents = append(runs, p.Run), append(messages, p.Message), append(contents, []byte(p.Text))
		starts, attempts = append(starts, int64(p.Offset)), append(attempts, int64(p.Attempt))
	}
	if len(rows) > 0 {
		w.trip.add(nil, putPartials, len(rows), runs, starts, attempts, messages, contents)
	}
}
