package sqlite

import (
	"mailroom/store"
	"mailroom/store/internal/sqlstore"
)

const (
	workerColumns = `id, host, pid, local, agents, started_at, lease_until, dead, owner, uncharged, node, duties,
		version`
	putWorker = `INSERT INTO worker (` + workerColumns + `) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET host = excluded.host, pid = excluded.pid, local = excluded.local,
		agents = excluded.agents, started_at = excluded.started_at, lease_until = excluded.lease_until,
		dead = excluded.dead, owner = excluded.owner, uncharged = excluded.uncharged,
		node = excluded.node, duties = excluded.duties, version = excluded.version`
	dropWorker  = "DELETE FROM worker WHERE id = ?"
	workersWith = "SELECT " + workerColumns + " FROM worker WHERE id "
)

func scanWorker(c *columns) (*store.Worker, error) {
	w := &store.Worker{ID: c.Text(), Host: c.Text(), PID: c.Int(), Local: c.bool()}
	c.json(&w.Agents)
	w.StartedAt, w.LeaseUntil, w.Dead, w.Owner, w.Uncharged = c.Time(), c.Time(), c.bool(), c.Text(), c.bool()
	w.Node = c.Text()
	c.json(&w.Duties)
	w.Version = c.Text()
	return w, c.err
}

// Workers implements [store.Reader].
func (r reader) Workers(ids ...string) (found []*store.Worker, err error) {
	each := func(c *columns) (bool, error) {
		w, err := scanWorker(c)
		found = append(found, w)
		return true, err
	}
	if len(ids) == 0 {
		return found, r.query("read workers", "SELECT "+workerColumns+" FROM worker ORDER BY id", nil, each)
	}
	for args := range inLists(sqlstore.Distinct(ids)) {
		if err := lookUp(r, "read workers", workersWith+in(args)+" ORDER BY id", args, each); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (t *tx) lockWorkers(ids []string) ([]*store.Worker, error) {
	found := make(map[string]*store.Worker, len(ids))
	var unknown []string
	for _, id := range ids {
		if found[id] = t.store.memo.worker(id); found[id] == nil {
			unknown = append(unknown, id)
		}
	}
	for args := range inLists(unknown) {
		err := t.session.query(t.ctx, workersWith+in(args), args, func(c *columns) (bool, error) {
			w, err := scanWorker(c)
			if err == nil {
				found[w.ID] = w
				t.store.memo.putWorker(w)
			}
			return true, err
		})
		if err != nil {
			return nil, err
		}
	}
	rows := make([]*store.Worker, len(ids))
	for i, id := range ids {
		rows[i] = found[id]
	}
	return rows, nil
}

func writeWorker(t *tx, w *store.Worker) error {
	err := t.run(putWorker, w.ID, w.Host, int64(w.PID), bit(w.Local), texts(w.Agents), micros(w.StartedAt),
		micros(w.LeaseUntil), bit(w.Dead), w.Owner, bit(w.Uncharged), w.Node, texts(w.Duties), w.Version)
	if err == nil {
		t.store.memo.putWorker(w)
	}
	return err
}

func removeWorker(t *tx, id string) error {
	delete(t.store.memo.workers, id)
	return t.run(dropWorker, id)
}
