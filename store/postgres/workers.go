package postgres

import (
	"mailroom/store"
	"mailroom/store/internal/format"
	"mailroom/store/internal/sqlstore"
)

const (
	putWorkers = `INSERT INTO worker (id, body) SELECT * FROM unnest($1::text[], $2::bytea[]) u (id, body) ORDER BY id
		ON CONFLICT (id) DO UPDATE SET body = excluded.body`
	dropWorkers = "DELETE FROM worker WHERE id = ANY ($1::text[])"
)

// Workers implements [store.Reader].
func (r reader) Workers(ids ...string) ([]*store.Worker, error) {
	var s sqlstore.Select
	s.Add("SELECT body FROM worker")
	if len(ids) > 0 {
		s.Cond("id = ANY (?::text[])", sqlstore.Distinct(ids))
	}
	s.Add(" ORDER BY id")
	return list(r, "read workers", &s, 0, 0, func(c *columns) (*store.Worker, error) {
		w := &store.Worker{}
		return w, format.ParseWorker(c.Text(), w)
	})
}

func (w *writing) writeWorkers(workers []*store.Worker) {
	var ids []string
	var bodies [][]byte
	for _, row := range lastOfEach(workers, func(row *store.Worker) string { return row.ID }) {
		ids, bodies = append(ids, row.ID), append(bodies, format.AppendWorker(nil, row))
	}
	if len(ids) > 0 {
		w.trip.add(nil, putWorkers, ids, bodies)
	}
}
