package ledger

import (
	"context"
	"slices"
	"time"

	"mailroom"
	"mailroom/auth"
)

// Tokens that act for another one, such as the sessions of browsers, have rows of their own. A row is
// dropped when it is revoked, and some time after it has expired.

// maxDropped bounds the expired tokens that one operation drops.
const maxDropped = 100

// DeriveToken makes a token that acts for by.Name, with the terms of in and the secret whose SHA-256 is
// in.Sum. The caller is by, which must have the rights.
func (as Accounts) DeriveToken(ctx context.Context, in auth.Token, by *auth.Token) (*auth.Token, error) {
	if err := in.CheckDerived(by); err != nil {
		return nil, err
	}
	id, of := NewID(), by.Name
	o := op{name: "create token", rank: rankPlain, topics: []string{topicTokens}}
	return run(ctx, as.ledger, o, func(b *batch) (*auth.Token, error) {
		if err := makeRoom(b, of); err != nil {
			return nil, err
		}
		return derive(b, in, of, id), nil
	})
}

// SpendLink exchanges a link for a session with the secret whose SHA-256 is in.Sum. The session acts for
// the same name with the same scopes. link is the SHA-256 of the link's secret. An unknown, expired or
// spent link is CodeUnauthenticated.
func (as Accounts) SpendLink(ctx context.Context, link string, in auth.Token) (*auth.Token, error) {
	id := NewID()
	o := op{name: "sign in", rank: rankPlain, topics: []string{topicTokens}}
	return run(ctx, as.ledger, o, func(b *batch) (*auth.Token, error) {
		all, err := b.rows.accounts()
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(all, func(t *auth.Token) bool {
			return t.Sum == link && t.Terms.Kind == auth.KindLink && !t.Expired(b.rows.now)
		})
		if at < 0 {
			return nil, mailroom.Errorf(mailroom.CodeUnauthenticated, "the link is unknown, has expired or was used already: make another one with mailroom open")
		}
		spent := all[at]
		row := in
		row.Terms.Kind, row.Terms.Scopes = auth.KindSession, slices.Clone(spent.Terms.Scopes)
		b.dropToken(spent.Name)
		if err := makeRoom(b, spent.Terms.For); err != nil {
			return nil, err
		}
		return derive(b, row, spent.Terms.For, id), nil
	})
}

// DropSession ends the session whose secret has this SHA-256. A session that is gone is no error.
func (as Accounts) DropSession(ctx context.Context, sum string) error {
	o := op{name: "sign out", rank: rankPlain, topics: []string{topicTokens}}
	_, err := run(ctx, as.ledger, o, func(b *batch) (struct{}, error) {
		all, err := b.rows.accounts()
		for _, t := range slices.Clone(all) {
			if t.Sum == sum && t.Terms.Kind == auth.KindSession {
				b.dropToken(t.Name)
			}
		}
		return struct{}{}, err
	})
	return err
}

// derive adds the row of a token that acts for a name.
func derive(b *batch, in auth.Token, of, id string) *auth.Token {
	row := plainToken(&in)
	row.Terms = in.Terms.Stored()
	row.Name, row.Terms.For, row.Scopes, row.Namespace = auth.DerivedName(of, id), of, nil, ""
	row.CreatedAt, row.UsedAt, row.RevokedAt = b.rows.now, time.Time{}, time.Time{}
	b.saveToken(row)
	return plainToken(row)
}

// makeRoom drops expired tokens that act for others, and refuses another one for a name that has too
// many.
func makeRoom(b *batch, of string) error {
	all, err := b.rows.accounts()
	if err != nil {
		return err
	}
	have, dropped := 0, 0
	for _, t := range slices.Clone(all) {
		switch {
		case t.Terms.For == "":
		case t.Expired(b.rows.now) && dropped < maxDropped:
			b.dropToken(t.Name)
			dropped++
		case t.Terms.For == of:
			have++
		}
	}
	if have >= auth.MaxDerived {
		return mailroom.Errorf(mailroom.CodeQuotaExceeded, "%q has %d sessions, links and limited tokens: revoke some with mailroom token revoke", of, have)
	}
	return nil
}

// dropToken removes the row of a token that acts for another one. The rows are loaded.
func (b *batch) dropToken(name string) {
	isIt := func(t *auth.Token) bool { return t.Name == name }
	b.rows.tokens = slices.DeleteFunc(b.rows.tokens, isIt)
	b.changes.Tokens = slices.DeleteFunc(b.changes.Tokens, isIt)
	b.rows.tokensByName[name] = nil
	b.changes.DropTokens = append(b.changes.DropTokens, name)
}
