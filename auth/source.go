package auth

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
)

// A right is bound to the row that it comes from, not to the name of that row: a name can be used again, and its
// next holder must not get what the former one left. Each row that acts for a name has in Terms.Source the row
// that it was derived from, so the rows are chains: token, session, limited token. A row is valid only while
// each row of its chain is.

// operatorID begins the ids of the operator's token, which has no row. No id of a row begins like it.
const operatorID = "operator-"

// MaxChain bounds the rows of a chain that act for others, so that a look at all rows costs the same however they
// were derived, and a row of a damaged store that is its own source is no endless loop.
const MaxChain = 16

// ID identifies the row of a token. A later token of the same name has another one, so what has to end with a
// token names its ID. It is made of Sum, which only a new secret changes, and reveals nothing about it: rows
// that older versions wrote have one, and no version can forget to renew it. It is "" for a token without a
// secret.
func (t *Token) ID() string {
	if t.Sum == "" {
		return ""
	}
	sum := sha256.Sum256([]byte("token row\x00" + t.Sum))
	id := hex.EncodeToString(sum[:16])
	if t.Name == Operator && t.Terms.Kind == KindToken {
		return operatorID + id
	}
	return id
}

// NewOperator returns the operator's token with a secret; "" makes the token of a server without a
// secret.
func NewOperator(secret string) *Token {
	t := RunToken(Operator)
	if secret != "" {
		sum := sha256.Sum256([]byte(secret))
		t.Sum = hex.EncodeToString(sum[:])
	}
	return t
}

// OfOperator reports whether id belongs to a token of the operator, the present one or a former one.
func OfOperator(id string) bool { return strings.HasPrefix(id, operatorID) }

// IsOperator reports whether id belongs to t, which is the operator's token. Without a secret, t stands for every
// token that the operator had.
func (t *Token) IsOperator(id string) bool {
	known := t.ID()
	return id == known && known != "" || known == "" && OfOperator(id)
}

// Chains are the rows of tokens, linked to the rows that they were derived from.
//
// A revocation also drops the rows below its row in the same transaction (Below). Each of the two covers a gap of
// the other: a version that did not know sources still revokes without dropping, and code that reads rows without
// the token of the operator, as package alert does, does not know that it was replaced. A generation number in the
// row would have been one more thing that each version must count.
//
// A spent link passes its source to the session, because its own row is gone. A row without a source was written by
// a version that did not know sources: it is valid if it is not older than the token that has the name.
type Chains struct {
	rows     []*Token
	operator *Token
	now      time.Time
	base     map[string]*Token // the valid rows of KindToken, by name
	derived  map[string]*Token // derived tokens by ID
}

// NewChains returns the chains of rows at now. operator is the operator's token; without a secret it stands for
// every token that the operator had, for callers that do not know the present one.
func NewChains(rows []*Token, operator *Token, now time.Time) *Chains {
	c := &Chains{rows: rows, operator: operator, now: now, base: map[string]*Token{}, derived: map[string]*Token{}}
	for _, t := range rows {
		switch {
		case t.Terms.Kind != KindToken:
			c.derived[t.ID()] = t
		case t.RevokedAt.IsZero() && !t.Expired(now):
			c.base[t.Name] = t
		}
	}
	return c
}

// Base returns the token that a row acts for, and when the rights of the row end: with the first row of its
// chain that expires. The time is zero if they never end. The token is nil if a row of the chain was revoked or
// replaced, is gone or has expired.
func (c *Chains) Base(t *Token) (base *Token, end time.Time) {
	for row, n := t, 0; row != nil && n < MaxChain; row, n = c.derived[row.Terms.Source], n+1 {
		if row.Terms.Kind == KindToken || row.Terms.For != t.Terms.For || row.Expired(c.now) || !row.RevokedAt.IsZero() {
			break
		}
		end = earlier(end, row.Terms.ExpiresAt)
		if base := c.source(row); base != nil {
			return base, earlier(end, base.Terms.ExpiresAt)
		}
	}
	return nil, time.Time{}
}

// source returns the token that a row was derived from, nil if that is not a KindToken.
func (c *Chains) source(t *Token) *Token {
	from := t.Terms.Source
	if t.Terms.For == Operator {
		if from == "" || c.operator.IsOperator(from) {
			return c.operator
		}
		return nil
	}
	base := c.base[t.Terms.For]
	switch {
	case base == nil:
		return nil
	case from == "" && !t.CreatedAt.Before(base.CreatedAt): // a version before sources wrote it, for this row or an earlier one
		return base
	case from == base.ID():
		return base
	}
	return nil
}

// Length returns the number of rows of a chain that act for others, up to one more than MaxChain.
func (c *Chains) Length(t *Token) (n int) {
	for ; t != nil && n <= MaxChain; t = c.derived[t.Terms.Source] {
		n++
	}
	return n
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Valid returns the tokens that are valid, with the rights that they have.
func (c *Chains) Valid() (valid []*Token) {
	for _, t := range c.rows {
		if t.Terms.Kind == KindToken {
			if c.base[t.Name] == t {
				valid = append(valid, t)
			}
			continue
		}
		if base, end := c.Base(t); base != nil {
			acts := t.Act(base)
			acts.Terms.ExpiresAt = end
			valid = append(valid, acts)
		}
	}
	return valid
}

// Below returns the rows whose rights end with the rights of a row: the rows that were derived from
// it, directly or through others. For a row of KindToken these are all that act for its name.
func (c *Chains) Below(t *Token) (rows []*Token) {
	for _, other := range c.rows {
		if other.Terms.Kind != KindToken && other != t && c.endsWith(other, t) {
			rows = append(rows, other)
		}
	}
	return rows
}

func (c *Chains) endsWith(t, source *Token) bool {
	if source.Terms.Kind == KindToken {
		return t.Terms.For == source.Name
	}
	id := source.ID()
	for n := 0; t != nil && n < MaxChain; t, n = c.derived[t.Terms.Source], n+1 {
		if t.Terms.Source == id {
			return true
		}
	}
	return false
}
