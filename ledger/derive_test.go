package ledger_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/ledger"
)

// derived is a token that acts for another one for an hour.
func derived(kind auth.Kind, sum string, scopes ...auth.Permission) auth.Token {
	return auth.Token{Sum: sum, Terms: auth.Terms{Kind: kind, Scopes: scopes, ExpiresAt: time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)}}
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
				if got.Terms.Kind != auth.KindSession || got.Terms.For != "ann" || len(got.Terms.Scopes) != 1 || len(got.Scopes) != 0 {
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
	for i := range auth.MaxDerived {
		wait.Go(func() {
			if _, err := d.Accounts().DeriveToken(d.ctx, derived(auth.KindLimited, fmt.Sprint(i), auth.PermissionRead), ann); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	_, err := d.Accounts().DeriveToken(d.ctx, derived(auth.KindLimited, "more", auth.PermissionRead), ann)
	wantCode(t, err, mailroom.CodeQuotaExceeded)
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
