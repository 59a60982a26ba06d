package postgres

import (
	"slices"

	"mailroom/auth"
	"mailroom/store"
	"mailroom/store/internal/format"
	"mailroom/store/internal/sqlstore"
)

const (
	tokenColumns = `SELECT t.key, t.body, coalesce(sum(u.threads), 0)::bigint, coalesce(sum(u.bytes), 0)::bigint,
		coalesce(sum(u.workers), 0)::bigint, coalesce(sum(u.notifications), 0)::bigint
		FROM token t LEFT JOIN token_use u ON u.token = t.name`
	tokensNamed  = tokenColumns + " WHERE t.name = ANY ($1::text[]) GROUP BY t.key ORDER BY t.name"
	allTokens    = tokenColumns + " GROUP BY t.key ORDER BY t.name"
	insertTokens = `WITH w AS (INSERT INTO token (name, body) SELECT u.name, u.body FROM unnest($2::text[],
		$3::bytea[]) WITH ORDINALITY u (name, body, n)
		ORDER BY u.n RETURNING key)` + checkKeys
	updateTokens = `WITH w AS (UPDATE token t SET body = u.body FROM unnest($2::bigint[], $3::text[],
		$4::bytea[]) u (key, name, body)
		WHERE t.key = u.key AND t.name = u.name RETURNING 1)` + checkRows
	addUse = `INSERT INTO token_use (token, node, threads, bytes, workers, notifications)
		SELECT u.token, $1::text, u.threads, u.bytes, u.workers, u.notifications
		FROM unnest($2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[]) u (token, threads, bytes,
		workers, notifications)
			JOIN token t ON t.name = u.token ORDER BY u.token
		ON CONFLICT (token, node) DO UPDATE SET threads = token_use.threads + excluded.threads,
		bytes = token_use.bytes + excluded.bytes,
			workers = token_use.workers + excluded.workers, notifications = token_use.notifications + excluded.notifications`
	dropTokens = `WITH u AS (DELETE FROM token_use WHERE token = ANY ($1::text[]))
		DELETE FROM token WHERE name = ANY ($1::text[])`

	// What a transaction writes for a token is committed before the token ends, or not at all: it locks the table of
	// the tokens in a weak mode from before it reads the row until its end, and a transaction that ends a token waits
	// for a mode that excludes this one. A paused server loses the lock with its session. FOR SHARE on the row would
	// do the same and write the row with each commit; a lock of a table is in the memory of the database. Not an
	// advisory lock, which each role that may connect can hold. Neither mode excludes what only reads, such as a
	// backup.
	holdTokens = "LOCK TABLE token IN ROW SHARE MODE"
	endTokens  = "LOCK TABLE token IN EXCLUSIVE MODE"
)

func scanToken(c *columns) (*auth.Token, error) {
	t := &auth.Token{Key: c.Int64()}
	err := format.ParseToken(c.Text(), t)
	t.Used = auth.Use{Threads: c.Int64(), Bytes: c.Int64(), Workers: c.Int64(), Notifications: c.Int64()}
	return t, err
}

// Tokens implements [store.Reader].
func (r reader) Tokens(names ...string) ([]*auth.Token, error) {
	var s sqlstore.Select
	if len(names) == 0 {
		s.Add(allTokens)
	} else {
		s.Add(tokensNamed, names)
	}
	return list(r, "read tokens", &s, 0, 0, scanToken)
}

func (w *writing) writeTokens(c *store.Changes) {
	var old, fresh struct {
		keys   []int64
		names  []string
		bodies [][]byte
	}
	var inserted []*auth.Token
	use := slices.Clone(c.Use)
	for _, row := range c.Tokens {
		into := &old
		if row.Key == 0 {
			into = &fresh
			inserted = append(inserted, row)
			use = append(use, store.UseChange{Token: row.Name, Add: row.Used})
		}
		into.keys, into.names = append(into.keys, row.Key), append(into.names, row.Name)
		into.bodies = append(into.bodies, format.AppendToken(nil, row))
	}
	if len(fresh.names) > 0 {
		keys := setKeys(inserted, func(t *auth.Token) *int64 { return &t.Key })
		w.trip.add(keys, insertTokens, len(fresh.names), fresh.names, fresh.bodies)
	}
	if len(old.names) > 0 {
		w.trip.add(nil, updateTokens, len(old.names), old.keys, old.names, old.bodies)
	}
	w.addUse(use)
}

func (w *writing) addUse(changes []store.UseChange) {
	sums := map[string]auth.Use{}
	var names []string
	for _, u := range changes {
		if _, ok := sums[u.Token]; !ok {
			names = append(names, u.Token)
		}
		sums[u.Token] = sums[u.Token].Plus(u.Add)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return sums[name] == auth.Use{} })
	var threads, bytes, workers, notifications []int64
	for _, name := range names {
		u := sums[name]
		threads, bytes = append(threads, u.Threads), append(bytes, u.Bytes)
		workers, notifications = append(workers, u.Workers), append(notifications, u.Notifications)
	}
	if len(names) > 0 {
		w.trip.add(nil, addUse, w.node, names, threads, bytes, workers, notifications)
	}
}

// endsTokens reports whether a transaction revokes or drops a token. A token that ends by its time was read with it.
func endsTokens(c *store.Changes) bool {
	revoked := func(row *auth.Token) bool { return !row.RevokedAt.IsZero() }
	return len(c.DropTokens) > 0 || slices.ContainsFunc(c.Tokens, revoked)
}
