package sqlite

import (
	"mailroom"
	"mailroom/store"
	"mailroom/store/internal/format"
)

const (
	insertKey = "INSERT INTO submit_key (thread, key, digest, result, joined_seq) VALUES (?, ?, ?, ?, ?)"
	keysOf    = `SELECT key, digest, result, joined_seq FROM submit_key
		WHERE thread = (SELECT key FROM thread WHERE id = ?)`
	oneKey   = keysOf + " AND key = ?"
	keysFrom = keysOf + " AND key > ? ORDER BY key LIMIT ?"
)

func (r reader) Keys(q store.KeyQuery) ([]store.SubmitKey, error) {
	if q.Blobs != nil {
		return nil, r.blobs(q.Thread, q.Blobs)
	}
	var found []store.SubmitKey
	add := func(c *columns) (bool, error) {
		k := store.SubmitKey{Thread: q.Thread, Key: c.Text(), Digest: c.Text()}
		c.json(&k.Result)
		k.JoinedSeq = c.Int64()
		found = append(found, k)
		return true, nil
	}
	if q.All {
		limit := int64(-1)
		if q.Limit > 0 {
			limit = int64(q.Limit)
		}
		return found, r.query("read submit keys", keysFrom, []any{q.Thread, q.After, limit}, add)
	}
	for _, key := range q.Keys {
		if err := r.query("read a submit key", oneKey, []any{q.Thread, key}, add); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// writeKey writes a submit key. A key that made no run stores the LastSeq of its thread, and is
// dropped with that part of the log; other keys are dropped with their runs.
func (t *tx) writeKey(k *store.SubmitKey, among map[string]*written) error {
	w := among[k.Thread]
	if w == nil {
		return mailroom.Errorf(mailroom.CodeInternal, "key %q: its thread %q is not in the changes", k.Key, k.Thread)
	}
	var joined any
	if seq, ok := k.JoinedAt(w.row); ok {
		joined = seq
	}
	_, err := t.exec(insertKey, w.row.Key, k.Key, k.Digest, format.EncodeSubmitted(&k.Result), joined)
	return err
}
