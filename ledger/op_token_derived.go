package ledger

import (
	"context"
	"slices"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/entry"
)

// Tokens that act for another one, such as the sessions of browsers, have rows of their own. A row is
// dropped when it is revoked, and some time after it has expired.

// maxDropped bounds the expired tokens that one operation drops.
const maxDropped = 100

// DeriveToken makes a token that acts for by.Name, with the terms of in and the secret whose SHA-256 is in.Sum. by
// is the token of the caller: it must have the rights, and its row must still be valid. The new token ends when
// that row does, and at the latest when it expires.
func (as Accounts) DeriveToken(ctx context.Context, in auth.Token, by *auth.Token) (*auth.Token, error) {
	if err := in.CheckDerived(by); err != nil {
		return nil, err
	}
	id, of := NewID(), by.Name
	in.Terms.Source = by.ID()
	o := op{name: "create_token", rank: rankPlain, topics: []string{topicTokens}, audits: true}
	return run(ctx, as.ledger, o, func(tx *transaction) (*auth.Token, error) {
		if err := makeRoom(tx, of, nil); err != nil {
			return nil, err
		}
		row, err := derive(tx, in, of, id)
		if err != nil {
			return nil, err
		}
		return row, recordToken(tx, "token.create", row, rightsOf(row))
	})
}

// SpendLink exchanges a link for a session with the secret whose SHA-256 is in.Sum. The session acts for
// the same name with the same scopes, and ends with what made the link. link is the SHA-256 of the link's
// secret. An unknown, expired or spent link is CodeUnauthenticated.
func (as Accounts) SpendLink(ctx context.Context, link string, in auth.Token) (*auth.Token, error) {
	id := NewID()
	o := op{name: "sign_in", rank: rankPlain, topics: []string{topicTokens}, audits: true}
	return run(ctx, as.ledger, o, func(tx *transaction) (*auth.Token, error) {
		all, err := tx.rows.accounts()
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(all, func(t *auth.Token) bool { return t.Sum == link && t.Terms.Kind == auth.KindLink })
		if at < 0 {
			return nil, ErrSpentLink()
		}
		spent := all[at]
		if base, _ := chainsOf(tx, all).Base(spent); base == nil {
			return nil, ErrSpentLink()
		}
		row := in
		row.Terms.Kind, row.Terms.Scopes, row.Terms.Source = auth.KindSession, slices.Clone(spent.Terms.Scopes),
			spent.Terms.Source
		if err := makeRoom(tx, spent.Terms.For, spent); err != nil {
			return nil, err
		}
		made, err := derive(tx, row, spent.Terms.For, id)
		if err != nil {
			return nil, err
		}
		tx.dropToken(spent.Name) // last: a refusal undoes nothing
		detail := rightsOf(made)
		detail["link"] = spent.Name
		return made, appendAudit(tx, entry.Audit{Action: "sign-in", Actor: made.Terms.For, ActorKind: "link",
			ObjectKind: "session",
			Object:     made.Name, Detail: detail})
	})
}

// ErrSpentLink is the error of a link that makes no session.
func ErrSpentLink() error {
	return mailroom.Errorf(mailroom.CodeUnauthenticated,
		"the link is unknown, has expired or was used already: make another one with mailroom open")
}

// DropSession ends the session whose secret has this SHA-256, and drops the tokens derived from it. It is no error if
// the session has ended already.
func (as Accounts) DropSession(ctx context.Context, sum string) error {
	o := op{name: "sign_out", rank: rankPlain, topics: []string{topicTokens}, audits: true}
	return perform(ctx, as.ledger, o, func(tx *transaction) error {
		all, err := tx.rows.accounts()
		for _, t := range slices.Clone(all) {
			if t.Sum == sum && t.Terms.Kind == auth.KindSession {
				dropBelow(tx, all, t)
				tx.dropToken(t.Name)
				if err := recordToken(tx, "sign-out", t, nil); err != nil {
					return err
				}
			}
		}
		return err
	})
}

// EndReplaced drops the tokens that were derived from former tokens of the operator. operator is the present token.
func (as Accounts) EndReplaced(ctx context.Context, operator *auth.Token) error {
	o := op{name: "end_replaced", rank: rankPlain, topics: []string{topicTokens}}
	return perform(ctx, as.ledger, o, func(tx *transaction) error {
		all, err := tx.rows.accounts()
		chains := auth.NewChains(all, operator, tx.now())
		for _, t := range slices.Clone(all) {
			if base, _ := chains.Base(t); base == nil && t.Terms.For == auth.Operator {
				tx.dropToken(t.Name)
			}
		}
		return err
	})
}

// derive adds the row of a token that acts for a name, which ends at the latest with its source.
func derive(tx *transaction, in auth.Token, of, id string) (*auth.Token, error) {
	row := plainToken(&in)
	row.Terms = in.Terms.Stored()
	row.Name, row.Terms.For, row.Scopes, row.Namespace = auth.DerivedName(of, id), of, nil, ""
	row.CreatedAt, row.UsedAt, row.RevokedAt = tx.now(), time.Time{}, time.Time{}
	all, err := tx.rows.accounts()
	if err != nil {
		return nil, err
	}
	chains := chainsOf(tx, all)
	base, end := chains.Base(row)
	switch {
	case base == nil && chains.Length(row) > auth.MaxChain:
		return nil, mailroom.Errorf(mailroom.CodeQuotaExceeded,
			"this session was made by a session, and so on %d times: make the link with the token itself", auth.MaxChain)
	case base == nil:
		return nil, mailroom.Errorf(mailroom.CodeUnauthenticated, "the token %q was revoked or has expired", of)
	}
	row.Terms.ExpiresAt = end
	tx.saveToken(row)
	return plainToken(row), nil
}

// chainsOf returns the chains of all rows. The present token of the operator is known to the servers.
func chainsOf(tx *transaction, all []*auth.Token) *auth.Chains {
	return auth.NewChains(all, auth.RunToken(auth.Operator), tx.now())
}

// dropBelow drops the tokens derived from t, because their rights end with it. all are the rows of all tokens.
func dropBelow(tx *transaction, all []*auth.Token, t *auth.Token) {
	for _, below := range chainsOf(tx, all).Below(t) {
		tx.dropToken(below.Name)
	}
}

// makeRoom drops expired tokens that act for the token named of, and refuses a further one if too many are left.
// replaces is the row that the new token takes over, or nil.
func makeRoom(tx *transaction, of string, replaces *auth.Token) error {
	all, err := tx.rows.accounts()
	if err != nil {
		return err
	}
	have, dropped := 0, 0
	for _, t := range slices.Clone(all) {
		switch {
		case t.Terms.Kind == auth.KindToken:
		case t.Expired(tx.now()) && dropped < maxDropped: // what was derived from it ended no later
			tx.dropToken(t.Name)
			dropped++
		case t.Terms.For == of && t != replaces:
			have++
		}
	}
	if have >= auth.MaxDerived {
		return mailroom.Errorf(mailroom.CodeQuotaExceeded,
			"%q has %d sessions, links and limited tokens: revoke some with mailroom token revoke", of, have)
	}
	return nil
}
