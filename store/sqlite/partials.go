package sqlite

import (
	"mailroom/store"
	"mailroom/store/internal/sqlstore"
)

const (
	insertPartial = `INSERT INTO partial (run, start, attempt, message, text)
		SELECT key, ?, ?, ?, ? FROM run WHERE id = ?
		ON CONFLICT (run, start) DO UPDATE SET attempt = excluded.attempt, message = excluded.message,
		text = excluded.text`
	dropPartials = "DELETE FROM partial WHERE run = (SELECT key FROM run WHERE id = ?)"
)

const partialsOf = `SELECT t.id, p.attempt, p.message, p.start, p.text
	FROM run r CROSS JOIN thread t ON t.key = r.thread CROSS JOIN partial p ON p.run = r.key
	WHERE r.id = ? ORDER BY p.start`

func (r reader) Partials(runs ...string) ([]store.Partial, error) {
	var found []store.Partial
	for _, run := range sqlstore.Distinct(runs) { // a list of ids would be sorted
		err := r.query("read partials", partialsOf, []any{run}, func(c *columns) (bool, error) {
			found = append(found, store.Partial{
				Thread: c.Text(), Run: run, Attempt: c.Int(), Message: c.Text(), Offset: c.Int(), Text: c.Text(),
			})
			return true, nil
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

func writePartial(t *tx, p store.Partial) error {
	res, err := t.exec(insertPartial, int64(p.Offset), int64(p.Attempt), p.Message, p.Text, p.Run)
	return wrote(res, err, "run", p.Run, 0)
}
