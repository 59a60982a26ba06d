package sqlite

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"mailroom/auth"
	"mailroom/store"
	"mailroom/store/internal/format"
)

const (
	readTokens = `SELECT t.key, t.name, t.sum, t.scopes, t.namespace, t.agents, t.quotas,
		u.threads, u.n, u.workers, u.notifications, t.created_at, t.used_at, t.revoked_at, t.terms
		FROM token t LEFT JOIN tally u ON u.what = '' AND u.owner = t.name AND u.agent = 'use' `
	insertToken = `INSERT INTO token (sum, scopes, namespace, agents, quotas,
		created_at, used_at, revoked_at, terms, name) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	updateToken = `UPDATE token SET sum = ?, scopes = ?, namespace = ?, agents = ?, quotas = ?,
		created_at = ?, used_at = ?, revoked_at = ?, terms = ? WHERE name = ? AND key = ?`
	dropToken = "DELETE FROM token WHERE name = ?"

	// The use of a token is a row of the table tally, because a commit that changes it changes counts too: it writes
	// one page for both. n has the bytes. Like the row of given, this row has no what.
	insertUse = `INSERT INTO tally (what, owner, agent, threads, n, workers, notifications)
		VALUES ('', ?, 'use', ?, ?, ?, ?)`
	addUse = `UPDATE tally SET threads = threads + ?, n = n + ?, workers = workers + ?, notifications = notifications + ?
		WHERE what = '' AND owner = ? AND agent = 'use'`
	dropUse = "DELETE FROM tally WHERE what = '' AND owner = ? AND agent = 'use'"
)

func (r reader) Tokens(names ...string) (found []*auth.Token, err error) {
	add := func(c *columns) (bool, error) {
		t := &auth.Token{Key: c.Int64(), Name: c.Text(), Sum: c.Text()}
		c.json(&t.Scopes)
		t.Namespace = c.Text()
		c.json(&t.Agents)
		c.json(&t.Quotas)
		t.Used = auth.Use{Threads: c.Int64(), Bytes: c.Int64(), Workers: c.Int64(), Notifications: c.Int64()}
		t.CreatedAt, t.UsedAt, t.RevokedAt = c.Time(), c.Time(), c.Time()
		terms, err := format.ParseTerms(c.Text())
		t.Terms = terms
		found = append(found, t)
		return true, cmp.Or(c.err, err)
	}
	if len(names) == 0 {
		return found, r.query("read tokens", readTokens+"ORDER BY t.name", nil, add)
	}
	for args := range inLists(names) {
		if err := lookUp(r, "read tokens", readTokens+"WHERE t.name "+in(args)+" ORDER BY t.name", args, add); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(found, func(a, b *auth.Token) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

func writeToken(t *tx, row *auth.Token) error {
	var quotas any
	if len(row.Quotas) > 0 {
		raw, err := json.Marshal(row.Quotas)
		if err != nil {
			return err
		}
		quotas = string(raw)
	}
	terms, err := format.EncodeTerms(row.Terms)
	if err != nil {
		return err
	}
	args := []any{row.Sum, texts(row.Scopes), row.Namespace, texts(row.Agents), quotas}
	times := []any{micros(row.CreatedAt), micros(row.UsedAt), micros(row.RevokedAt), orNull(terms), row.Name}
	if row.Key != 0 {
		res, err := t.exec(updateToken, append(append(args, times...), row.Key)...)
		return wrote(res, err, "token", row.Name, row.Key)
	}
	res, err := t.exec(insertToken, append(args, times...)...)
	if err != nil {
		return err
	}
	row.Key = res.lastKey
	u := row.Used
	return t.run(insertUse, row.Name, u.Threads, u.Bytes, u.Workers, u.Notifications)
}

func removeToken(t *tx, name string) error {
	if err := t.run(dropUse, name); err != nil {
		return err
	}
	return t.run(dropToken, name)
}

// texts encodes a list as a JSON column, NULL if it is empty.
func texts[T ~string](list []T) value { return orNull(format.Texts(list)) }

func writeUse(t *tx, u store.UseChange) error {
	return t.run(addUse, u.Add.Threads, u.Add.Bytes, u.Add.Workers, u.Add.Notifications, u.Token)
}
