package sqlite

import (
	"database/sql/driver"

	"mailroom"
)

const (
	readTokens = `SELECT key, name, sum, scopes, namespace, agents, created_at, used_at, revoked_at
		FROM token ORDER BY name`
	insertToken = `INSERT INTO token (sum, scopes, namespace, agents, created_at, used_at, revoked_at, name)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
	updateToken = `UPDATE token SET sum = ?, scopes = ?, namespace = ?, agents = ?, created_at = ?, used_at = ?,
		revoked_at = ? WHERE name = ? AND key = ?`
)

func (r reader) Tokens() ([]*mailroom.Token, error) {
	var found []*mailroom.Token
	err := r.query("read tokens", readTokens, nil, func(row []driver.Value) (bool, error) {
		c := columns{row: row}
		t := &mailroom.Token{Key: c.int64(), Name: c.text(), Sum: c.text()}
		c.json(&t.Scopes)
		t.Namespace = c.text()
		c.json(&t.Agents)
		t.CreatedAt, t.UsedAt, t.RevokedAt = c.time(), c.time(), c.time()
		found = append(found, t)
		return true, c.err
	})
	return found, err
}

func (t *tx) writeToken(row *mailroom.Token) error {
	args := []any{
		row.Sum, texts(row.Scopes), row.Namespace, texts(row.Agents),
		micros(row.CreatedAt), micros(row.UsedAt), micros(row.RevokedAt), row.Name,
	}
	if row.Key != 0 {
		res, err := t.exec(updateToken, append(args, row.Key)...)
		return wrote(res, err, "token", row.Name, row.Key)
	}
	res, err := t.exec(insertToken, args...)
	if err != nil {
		return err
	}
	row.Key, err = res.LastInsertId()
	return err
}

// texts is a list as a JSON column: NULL when it is empty.
func texts[T ~string](list []T) any {
	if len(list) == 0 {
		return nil
	}
	var plain []string
	for _, v := range list {
		plain = append(plain, string(v))
	}
	return string(appendTexts(nil, plain))
}
