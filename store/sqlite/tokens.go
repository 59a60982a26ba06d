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
	readTokens = `SELECT key, name, sum, scopes, namespace, agents, quotas, threads, bytes, workers, notifications,
		created_at, used_at, revoked_at, terms FROM token `
	insertToken = `INSERT INTO token (sum, scopes, namespace, agents, quotas, threads, bytes, workers, notifications,
		created_at, used_at, revoked_at, terms, name) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	updateToken = `UPDATE token SET sum = ?, scopes = ?, namespace = ?, agents = ?, quotas = ?,
		created_at = ?, used_at = ?, revoked_at = ?, terms = ? WHERE name = ? AND key = ?`
	addUse = `UPDATE token SET threads = threads + ?, bytes = bytes + ?, workers = workers + ?,
		notifications = notifications + ? WHERE name = ?`
	dropToken = "DELETE FROM token WHERE name = ?"
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
		return found, r.query("read tokens", readTokens+"ORDER BY name", nil, add)
	}
	for args := range inLists(names) {
		if err := lookUp(r, "read tokens", readTokens+"WHERE name "+in(args)+" ORDER BY name", args, add); err != nil {
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
	args = append(args, row.Used.Threads, row.Used.Bytes, row.Used.Workers, row.Used.Notifications)
	res, err := t.exec(insertToken, append(args, times...)...)
	if err != nil {
		return err
	}
	row.Key, err = res.LastInsertId()
	return err
}

// texts encodes a list as a JSON column, NULL if it is empty.
func texts[T ~string](list []T) any { return orNull(format.Texts(list)) }

func writeUse(t *tx, u store.UseChange) error {
	return t.run(addUse, u.Add.Threads, u.Add.Bytes, u.Add.Workers, u.Add.Notifications, u.Token)
}
