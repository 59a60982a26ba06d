package postgres

import (
	"mailroom/store"
	"mailroom/store/internal/format"
	"mailroom/store/internal/sqlstore"
)

const (
	insertKeys = `INSERT INTO submit_key (thread, key, digest, run, result, joined_seq)
		SELECT ` + threadOf + `, u.key, u.digest, nullif(u.run, ''), u.result, nullif(u.joined_seq, -1)
		FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bytea[], $7::bigint[])
			u (thread, thread_id, key, digest, run, result, joined_seq)`
)

// Keys implements [store.Reader].
func (r reader) Keys(q store.KeyQuery) ([]store.SubmitKey, error) {
	if q.Blobs != nil {
		return nil, r.blobs(q.Thread, q.Blobs)
	}
	var s sqlstore.Select
	if q.All {
		s.Add("SELECT k.key, k.digest, k.result, k.joined_seq FROM submit_key k")
		s.Cond("k.thread = (SELECT key FROM thread WHERE id = ?) AND k.key > ?", q.Thread, q.After)
		s.Add(" ORDER BY k.key")
	} else {
		q.Limit = 0
		s.Add(`SELECT u.key, k.digest, k.result, k.joined_seq FROM unnest(?::text[]) WITH ORDINALITY u (key, n)
			JOIN submit_key k ON k.key = u.key AND k.thread = (SELECT key FROM thread WHERE id = ?)
			ORDER BY u.n`, append([]string{}, q.Keys...), q.Thread)
	}
	return list(r, "read submit keys", &s, q.Limit, 0, func(c *columns) (store.SubmitKey, error) {
		k := store.SubmitKey{Thread: q.Thread, Key: c.Text(), Digest: c.Text()}
		c.json(&k.Result)
		k.JoinedSeq = c.Int64()
		return k, c.err
	})
}

// writeKeys writes submit keys. A key that made no run stores the LastSeq of its thread, and is
// dropped with that part of the log; other keys are dropped with their runs.
func (w *writing) writeKeys(c *store.Changes) error {
	var threads, joined []int64
	var ids, keys, digests, runs []string
	var results [][]byte
	for i := range c.Keys {
		k := &c.Keys[i]
		t, err := w.owner(k.Thread, "submit key "+k.Key)
		if err != nil {
			return err
		}
		at, ok := k.JoinedAt(t.row)
		if !ok {
			at = -1
		}
		threads, ids, joined = append(threads, t.row.Key), append(ids, k.Thread), append(joined, at)
		keys, digests, runs = append(keys, k.Key), append(digests, k.Digest), append(runs, k.Result.Run)
		results = append(results, []byte(format.EncodeSubmitted(&k.Result)))
	}
	if len(keys) > 0 {
		w.trip.add(nil, insertKeys, threads, ids, keys, digests, runs, results, joined)
	}
	return nil
}
