package ledger_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
)

// derived is a token that acts for another one for an hour.
func derived(kind auth.Kind, sum string, scopes ...auth.Permission) auth.Token {
	return auth.Token{Sum: sum, Terms: auth.Terms{Kind: kind, Scopes: scopes,
		ExpiresAt: time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)}}
}

// create makes a token that may do everything but work and administer.
func (d *fixture) create(name string) *auth.Token {
	d.t.Helper()
	return must(d.Accounts().CreateToken(d.ctx, account(name, "secret of "+name)))(d.t)
}

// acting returns the tokens that act for others.
func (d *fixture) acting() (rows []*auth.Token) {
	for _, t := range d.tokens() {
		if t.Terms.Kind != auth.KindToken {
			rows = append(rows, t)
		}
	}
	return rows
}

func TestOfSeveralBrowsersOneSpendsALink(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	ann := d.create("ann")
	must(d.Accounts().DeriveToken(d.ctx, derived(auth.KindLink, "link", auth.PermissionRead), ann))(t)
	var mu sync.Mutex
	var wait sync.WaitGroup
	won := 0
	for i := range 20 {
		wait.Go(func() {
			got, err := d.Accounts().SpendLink(d.ctx, "link", derived("", fmt.Sprint("session ", i)))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				won++
				if got.Terms.Kind != auth.KindSession || got.Terms.For != "ann" || len(got.Terms.Scopes) != 1 ||
					len(got.Scopes) != 0 {
					t.Errorf("got the session %+v", got)
				}
			case mailroom.CodeOf(err) != mailroom.CodeUnauthenticated:
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if rows := d.acting(); won != 1 || len(rows) != 1 || rows[0].Terms.Kind != auth.KindSession {
		t.Errorf("%d browsers signed in; the rows are %+v", won, rows)
	}
}

// A person who has a limited token, or the token itself, makes a session by a link only.
func TestOnlyTheSecretOfALinkMakesASession(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	ann := d.create("ann")
	must(d.Accounts().DeriveToken(d.ctx, derived(auth.KindLink, "link", auth.PermissionRead), ann))(t)
	must(d.Accounts().DeriveToken(d.ctx, derived(auth.KindLimited, "limited", auth.PermissionRead), ann))(t)
	must(d.Accounts().SpendLink(d.ctx, "link", derived("", "session")))(t)
	for _, sum := range []string{"limited", "session", ann.Sum, "unknown"} {
		_, err := d.Accounts().SpendLink(d.ctx, sum, derived("", "of "+sum))
		wantCode(t, err, mailroom.CodeUnauthenticated)
	}
	wantEqual(t, "rows that act for her", len(d.acting()), 2)
}

func TestANewTokenOfTheOperatorEndsWhatTheFormerOneMadeOnly(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	operator := func(sum string) *auth.Token {
		who := auth.RunToken(auth.Operator)
		who.Sum = sum
		return who
	}
	ann := d.create("ann")
	must(d.Accounts().DeriveToken(d.ctx, derived(auth.KindLimited, "of ann", auth.PermissionRead), ann))(t)
	must(d.Accounts().DeriveToken(d.ctx, derived(auth.KindLimited, "former", auth.PermissionRead), operator("first")))(t)
	must(d.Accounts().DeriveToken(d.ctx, derived(auth.KindLimited, "present", auth.PermissionRead), operator("second")))(t)
	if err := d.Accounts().EndReplaced(d.ctx, operator("second")); err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, row := range d.tokens() {
		left = append(left, row.Sum)
	}
	slices.Sort(left)
	wantEqual(t, "rows that are left", left, []string{"of ann", "present", "secret of ann"})
}

// A server of a version before sources revokes a token, and leaves the rows that act for its name.
func TestANewTokenEndsWhatAFormerOneOfItsNameLeft(t *testing.T) {
	rows := memory.New()
	d := open(t, rows, ledger.Options{})
	ann := d.create("ann")
	must(d.Accounts().DeriveToken(d.ctx, derived(auth.KindLimited, "left", auth.PermissionRead), ann))(t)
	must(struct{}{}, rows.Update(d.ctx, func(tx store.Tx) error {
		all, err := tx.Tokens()
		for _, row := range all {
			if row.Name == "ann" {
				row.RevokedAt = time.Now()
				err = errors.Join(err, tx.Write(&store.Changes{Tokens: []*auth.Token{row}}))
			}
		}
		return err
	}))(t)
	must(d.Accounts().CreateToken(d.ctx, account("ann", "another secret")))(t)
	wantEqual(t, "rows that act for the name", len(d.acting()), 0)
}

func TestExpiredTokensAreRefusedAndDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, ledger.Options{})
		ann := d.create("ann")
		must(d.Accounts().DeriveToken(d.ctx, derived(auth.KindLink, "link", auth.PermissionRead), ann))(t)
		must(d.Accounts().DeriveToken(d.ctx, derived(auth.KindLimited, "limited", auth.PermissionRead), ann))(t)
		<-time.After(time.Hour)
		_, err := d.Accounts().SpendLink(d.ctx, "link", derived("", "session"))
		wantCode(t, err, mailroom.CodeUnauthenticated)
		must(d.Accounts().DeriveToken(d.ctx, derived(auth.KindLimited, "next", auth.PermissionRead), ann))(t)
		if rows := d.acting(); len(rows) != 1 || rows[0].Sum != "next" {
			t.Errorf("the rows are %+v, want the token that has not expired", rows)
		}
	})
}

func TestTheTokensThatActForANameAreBounded(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	ann := d.create("ann")
	var wait sync.WaitGroup
	must(d.Accounts().DeriveToken(d.ctx, derived(auth.KindLink, "link", auth.PermissionRead), ann))(t)
	for i := range auth.MaxDerived - 1 {
		wait.Go(func() {
			if _, err := d.Accounts().DeriveToken(d.ctx, derived(auth.KindLimited, fmt.Sprint(i), auth.PermissionRead),
				ann); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	_, err := d.Accounts().DeriveToken(d.ctx, derived(auth.KindLimited, "more", auth.PermissionRead), ann)
	wantCode(t, err, mailroom.CodeQuotaExceeded)
	must(d.Accounts().SpendLink(d.ctx, "link", derived("", "session")))(t) // which replaces the link
	bob := d.create("bob")
	must(d.Accounts().DeriveToken(d.ctx, derived(auth.KindLimited, "of bob", auth.PermissionRead), bob))(t)
	for _, row := range d.tokens() {
		if row.Terms.For == "ann" && row.Sum == "7" {
			if err := d.Accounts().RevokeToken(d.ctx, row.Name); err != nil || !strings.HasPrefix(row.Name, "ann~") {
				t.Errorf("revoke %s: %v", row.Name, err)
			}
		}
	}
	must(d.Accounts().DeriveToken(d.ctx, derived(auth.KindLimited, "more", auth.PermissionRead), ann))(t)
}

func TestASessionEndsWithItsToken(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	in := account("day", "secret of day")
	in.Terms.ExpiresAt = time.Now().Add(30 * time.Minute).UTC().Truncate(time.Microsecond)
	day := must(d.Accounts().CreateToken(d.ctx, in))(t)
	must(d.Accounts().DeriveToken(d.ctx, derived(auth.KindLink, "link", auth.PermissionRead), day))(t)
	session := must(d.Accounts().SpendLink(d.ctx, "link", derived("", "session")))(t)
	if !session.Terms.ExpiresAt.Equal(in.Terms.ExpiresAt) || session.Terms.Source != day.ID() {
		t.Errorf("the session is %+v, want one that ends with its token at %s", session.Terms, in.Terms.ExpiresAt)
	}
}

// TestSigningOutDropsWhatTheSessionMade also has a caller whose row has ended since it was admitted.
func TestSigningOutDropsWhatTheSessionMade(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	must(d.Accounts().DeriveToken(d.ctx, derived(auth.KindLink, "link", auth.PermissionRead), d.create("ann")))(t)
	row := must(d.Accounts().SpendLink(d.ctx, "link", derived("", "session")))(t)
	caller := row.Act(&auth.Token{Name: "ann", Scopes: []auth.Permission{auth.PermissionRead}})
	caller.Terms.ExpiresAt = time.Time{}
	must(d.Accounts().DeriveToken(d.ctx, derived(auth.KindLimited, "limited", auth.PermissionRead), caller))(t)
	if err := d.Accounts().DropSession(d.ctx, "session"); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "rows that are left", len(d.acting()), 0)
	_, err := d.Accounts().DeriveToken(d.ctx, derived(auth.KindLimited, "late", auth.PermissionRead), caller)
	wantCode(t, err, mailroom.CodeUnauthenticated)
	_, err = d.Accounts().CreateToken(d.ctx, account("bob", "his"))
	if err == nil {
		err = d.Accounts().RevokeToken(d.ctx, "bob")
	}
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.Accounts().CreateToken(d.ctx, account("bob", "his"))
	wantCode(t, err, mailroom.CodeConflict) // it would have the ID of the revoked one
}
