package ledger

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/store"
)

// topicTokens serializes the operations that read and write token rows.
const topicTokens = "tokens"

// Accounts are the operations on tokens.
type Accounts struct{ ledger *Ledger }

// Accounts returns the operations on tokens.
func (l *Ledger) Accounts() Accounts { return Accounts{l} }

// Tokens returns all token rows, ordered by name.
func (as Accounts) Tokens(ctx context.Context) (rows []*auth.Token, err error) {
	err = as.ledger.View(ctx, func(r store.Reader) error {
		rows, err = r.Tokens()
		return err
	})
	return rows, err
}

// CreateToken creates a token for the secret whose SHA-256 is in.Sum. A name has one token at a
// time. After a revocation the name is free again, and the new token takes over its row, so the
// table does not grow with each secret, but gets nothing that was derived from the former one. A repeat with the
// same secret returns the existing token; the secret of a revoked token is refused.
func (as Accounts) CreateToken(ctx context.Context, in auth.Token) (*auth.Token, error) {
	if err := in.Check(); err != nil {
		return nil, err
	}
	if in.Sum == "" {
		return nil, mailroom.Errorf(mailroom.CodeInvalid, "token %q has no secret; set its SHA-256", in.Name)
	}
	o := op{name: "create_token", rank: rankPlain, topics: []string{topicTokens}, audits: true}
	made, err := run(ctx, as.ledger, o, func(tx *transaction) (*auth.Token, error) {
		there, err := tx.rows.token(in.Name)
		switch {
		case err != nil:
			return nil, err
		case there != nil && there.Sum == in.Sum && there.RevokedAt.IsZero():
			return plainToken(there), nil
		case there != nil && there.RevokedAt.IsZero():
			return nil, mailroom.Errorf(mailroom.CodeConflict,
				"token %q exists: revoke it first, or choose another name", in.Name)
		case there != nil && there.Sum == in.Sum: // it would have the ID of the revoked one
			return nil, mailroom.Errorf(mailroom.CodeConflict, "token %q was revoked with this secret: use another one", in.Name)
		}
		if there != nil { // a version before sources leaves them at a revocation
			if err := dropDerived(tx, there); err != nil {
				return nil, err
			}
		}
		row := plainToken(&in)
		row.Terms = in.Terms.Stored()
		row.CreatedAt, row.UsedAt, row.RevokedAt = tx.now(), time.Time{}, time.Time{}
		row.Used = auth.Use{}
		if there != nil {
			row.Key, row.Used = there.Key, there.Used
		}
		tx.saveToken(row)
		return plainToken(row), recordToken(tx, "token.create", row, rightsOf(row))
	})
	if err == nil {
		_ = as.ledger.options.Budgets.owners.read(ctx, as.ledger.lanes[0].store) // else they are read again soon
	}
	return made, err
}

// SetQuotas replaces the quotas of a token's name.
func (as Accounts) SetQuotas(ctx context.Context, name string, q auth.Quotas) (*auth.Token, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	o := op{name: "set_quotas", rank: rankPlain, topics: []string{topicTokens}, audits: true}
	return run(ctx, as.ledger, o, func(tx *transaction) (*auth.Token, error) {
		there, err := tx.rows.token(name)
		switch {
		case err != nil:
			return nil, err
		case there == nil:
			return nil, mailroom.Errorf(mailroom.CodeNotFound, "no token %q", name)
		}
		there.Quotas = maps.Clone(q)
		tx.saveToken(there)
		detail := map[string]string{}
		for name, most := range q {
			detail[string(name)] = strconv.FormatInt(most, 10)
		}
		return plainToken(there), recordToken(tx, "token.quotas", there, detail)
	})
}

// RecordTokenUse records when secrets were last used, keyed by their SHA-256. Secrets of revoked or
// replaced tokens are ignored.
func (as Accounts) RecordTokenUse(ctx context.Context, used map[string]time.Time) error {
	o := op{name: "tokens_used", rank: rankPlain, topics: []string{topicTokens}}
	return perform(ctx, as.ledger, o, func(tx *transaction) error {
		rows, err := tx.rows.accounts()
		for _, t := range rows {
			if at, ok := used[t.Sum]; ok && at.After(t.UsedAt) {
				t.UsedAt = at
				tx.saveToken(t)
			}
		}
		return err
	})
}

// dropDerived drops the tokens that were derived from the token t.
func dropDerived(tx *transaction, t *auth.Token) error {
	all, err := tx.rows.accounts()
	if err == nil {
		dropBelow(tx, all, t)
	}
	return err
}

// plainToken returns a copy that later operations of the batch cannot change, without the key,
// which the store has not set yet.
func plainToken(t *auth.Token) *auth.Token {
	c := *t
	c.Key, c.Scopes, c.Agents, c.Quotas = 0, slices.Clone(t.Scopes), slices.Clone(t.Agents), maps.Clone(t.Quotas)
	c.Terms.Scopes, c.Terms.Threads = slices.Clone(t.Terms.Scopes), slices.Clone(t.Terms.Threads)
	return &c
}
