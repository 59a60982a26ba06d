package ledger_test

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"mailroom"
	"mailroom/auth"
	"mailroom/ledger"
)

// account creates, revokes or uses a token, and compares the valid tokens with the model.
func (m *model) account(t *rapid.T) {
	name := one(t, []string{"amy", "ben"}, "name") // these two names own no threads
	known, good := m.tokens[name]
	switch number(t, 0, 2, "of a token") {
	case 0:
		in := account(name, m.name("secret "))
		if _, err := onBoth(t, m.twin, "create token", func(l *ledger.Ledger) (*auth.Token, error) {
			return l.Accounts().CreateToken(m.ctx, in)
		}); err == nil {
			if good {
				t.Fatalf("token %s was created although it exists", name)
			}
			m.tokens[name] = in
		}
	case 1:
		if m.do(t, "revoke token", func(l *ledger.Ledger) error { return l.Accounts().RevokeToken(m.ctx, name) }) == nil {
			delete(m.tokens, name)
		}
	case 2:
		at := m.clock.read().Truncate(time.Minute)
		_ = m.do(t, "tokens used", func(l *ledger.Ledger) error { // onBoth compares the errors of both ledgers
			return l.Accounts().RecordTokenUse(m.ctx, map[string]time.Time{known.Sum: at, "unknown": at})
		})
	}
	found := map[string]string{}
	for _, row := range m.after.Tokens {
		if row.RevokedAt.IsZero() {
			found[row.Name] = row.Sum
		}
	}
	for name, in := range m.tokens {
		if found[name] != in.Sum {
			t.Fatalf("secret hash of token %s is %q, want %q", name, found[name], in.Sum)
		}
	}
	if len(found) != len(m.tokens) {
		t.Fatalf("valid tokens %v, want %v", found, slices.Collect(maps.Keys(m.tokens)))
	}
}

func (d *fixture) tokens() []*auth.Token {
	d.t.Helper()
	return must(d.Accounts().Tokens(d.ctx))(d.t)
}

func TestANameHasOneTokenAtATime(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	first := must(d.Accounts().CreateToken(d.ctx, account("ann", "one")))(t)
	if again := must(d.Accounts().CreateToken(d.ctx, account("ann", "one")))(t); cmp.Diff(first, again) != "" {
		t.Errorf("the same secret again: %+v, want %+v", again, first)
	}
	_, err := d.Accounts().CreateToken(d.ctx, account("ann", "two"))
	wantCode(t, err, mailroom.CodeConflict)

	if err := d.Accounts().RevokeToken(d.ctx, "ann"); err != nil {
		t.Fatal(err)
	}
	key, revoked := d.tokens()[0].Key, d.tokens()[0].RevokedAt
	if revoked.IsZero() {
		t.Error("the token is not revoked")
	}
	if err := d.Accounts().RevokeToken(d.ctx, "ann"); err != nil || !d.tokens()[0].RevokedAt.Equal(revoked) {
		t.Errorf("second RevokeToken: %v, revoked at %v; want the first time", err, d.tokens()[0].RevokedAt)
	}
	wantCode(t, d.Accounts().RevokeToken(d.ctx, "bob"), mailroom.CodeNotFound)

	second := account("ann", "two")
	second.Scopes, second.Namespace = []auth.Permission{auth.PermissionRead}, "team-"
	got := must(d.Accounts().CreateToken(d.ctx, second))(t)
	want := second
	want.Key, want.CreatedAt = key, got.CreatedAt
	wantEqual(t, "the next one", d.tokens(), []*auth.Token{&want})
	// A late use of a revoked secret is ignored.
	if err := d.Accounts().RecordTokenUse(d.ctx, map[string]time.Time{"one": time.Now()}); err != nil ||
		!d.tokens()[0].UsedAt.IsZero() {
		t.Errorf("used at %v, %v, want never", d.tokens()[0].UsedAt, err)
	}
}

func TestAnInvalidTokenIsRefused(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	for name, in := range map[string]auth.Token{
		"the operator's name": account(auth.Operator, "sum"),
		"no name":             account("", "sum"),
		"no scope":            {Name: "ann", Sum: "sum"},
		"no secret":           account("ann", ""),
	} {
		if _, err := d.Accounts().CreateToken(d.ctx, in); mailroom.CodeOf(err) != mailroom.CodeInvalid {
			t.Errorf("%s: %v, want invalid", name, err)
		}
	}
	wantEqual(t, "tokens", len(d.tokens()), 0)
}

func TestTheLastUseOfATokenOnlyMovesForward(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	must(d.Accounts().CreateToken(d.ctx, account("ann", "sum")))(t)
	early, late := time.Date(2030, 1, 2, 3, 4, 0, 0, time.UTC), time.Date(2030, 1, 2, 3, 5, 0, 0, time.UTC)
	for _, at := range []time.Time{late, early} {
		if err := d.Accounts().RecordTokenUse(d.ctx, map[string]time.Time{"sum": at}); err != nil {
			t.Fatal(err)
		}
		if got := d.tokens()[0].UsedAt; !got.Equal(late) {
			t.Errorf("used at %v: got %v, want %v", at, got, late)
		}
	}
}

func TestOperationsOnTokensOfOneBatchSeeEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newControlledStore(nil)
		d := open(t, f, ledger.Options{})
		create := func(name, sum string) func() error {
			return func() error { _, err := d.Accounts().CreateToken(d.ctx, account(name, sum)); return err }
		}
		errs := gatherBatch(t, d, f, create("amy", "one"), create("amy", "two"),
			func() error { return d.Accounts().RevokeToken(d.ctx, "amy") },
			create("amy", "three"), create("bob", "four"),
			func() error {
				return d.Accounts().RecordTokenUse(d.ctx, map[string]time.Time{"three": time.Unix(60, 0),
					"four": time.Unix(120, 0)})
			},
		)
		wantEqual(t, "codes", codes(errs), []mailroom.Code{"", mailroom.CodeConflict, "", "", "", ""})
		wantEqual(t, "commits", f.updates(), 1)
		var got []string
		for _, row := range d.tokens() {
			got = append(got, row.Name+" "+row.Sum+" "+row.UsedAt.UTC().Format(time.TimeOnly))
		}
		wantEqual(t, "tokens", got, []string{"amy three 00:01:00", "bob four 00:02:00"})
	})
}
