package ledger_test

import (
	"testing"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/ledger"
	"mailroom/project"
	"mailroom/store"
)

// TestAWriteIsRefusedOnceTheRowOfItsCallerEnds has two servers on one store: the second one ends the row between
// the admission of a request at the first one and its write.
func TestAWriteIsRefusedOnceTheRowOfItsCallerEnds(t *testing.T) {
	for _, s := range []*side{onMemory(), onFile(t.TempDir()), onPostgres(t)} {
		t.Run(s.name, func(t *testing.T) {
			var both [2]*fixture
			for i := range both {
				rows := must(s.open())(t)
				t.Cleanup(func() {
					if err := rows.Close(); err != nil {
						t.Error(err)
					}
				})
				both[i] = open(t, rows, ledger.Options{})
			}
			here, there := both[0], both[1]
			scopes := []auth.Permission{auth.PermissionSubmit}
			create := func(sum string) *auth.Token {
				return must(there.Accounts().CreateToken(there.ctx, auth.Token{Name: "ann", Sum: sum, Scopes: scopes}))(t)
			}
			derive := func(by *auth.Token, sum string, end time.Time) *auth.Token {
				return must(there.Accounts().DeriveToken(there.ctx, auth.Token{
					Sum: sum, Terms: auth.Terms{Kind: auth.KindLimited, Scopes: scopes, ExpiresAt: end},
				}, by))(t)
			}
			row, far := create("one"), time.Now().Add(time.Hour)
			limited := derive(row, "two", far)
			try := func(what string, by *auth.Token, want mailroom.Code) {
				t.Helper()
				ctx := ledger.WithCaller(here.ctx, func() ledger.Caller { return ledger.RowOf(by) })
				before := len(here.log("t"))
				_, err := here.Submit(ctx, submitAs("ann", "t", "x"))
				if mailroom.CodeOf(err) != want {
					t.Errorf("%s: submit: %v, want code %q", what, err, want)
				}
				in := reserve("a", "src/**")
				in.Project, in.By = "p", submitAs("ann", "", "").By
				_, err = here.Projects().Reserve(ctx, in)
				if mailroom.CodeOf(err) != want {
					t.Errorf("%s: reserve: %v, want code %q", what, err, want)
				}
				_, err = here.Projects().Notify(ctx, project.Notify{Project: "p", By: in.By, Notification: project.Notification{From: "a", Event: "e"}})
				if mailroom.CodeOf(err) != want {
					t.Errorf("%s: notify: %v, want code %q", what, err, want)
				}
				if after := len(here.log("t")); (after > before) != (want == "") {
					t.Errorf("%s: %d entries, then %d", what, before, after)
				}
			}
			try("a token", row, "")
			try("a limited token", limited, "")
			if err := there.Accounts().RevokeToken(there.ctx, limited.Name); err != nil {
				t.Fatal(err)
			}
			try("a revoked limited token", limited, mailroom.CodeUnauthenticated)
			limited = derive(row, "three", far)
			if err := there.Accounts().RevokeToken(there.ctx, "ann"); err != nil {
				t.Fatal(err)
			}
			again := create("four")
			try("the token of a name that has another one", row, mailroom.CodeUnauthenticated)
			try("a limited token of the former one", limited, mailroom.CodeUnauthenticated)
			try("the next token of the name", again, "")
			expired := auth.Token{Name: "brief", Sum: "five", Scopes: scopes, Terms: auth.Terms{ExpiresAt: time.Now().Add(-time.Minute)}}
			try("an expired one", must(there.Accounts().CreateToken(there.ctx, expired))(t), mailroom.CodeUnauthenticated)

			worker := must(there.Accounts().CreateToken(there.ctx, auth.Token{Name: "worker", Sum: "six", Scopes: []auth.Permission{auth.PermissionWork}}))(t)
			ctx := ledger.WithCaller(here.ctx, func() ledger.Caller { return ledger.RowOf(worker) })
			if _, err := here.Workers.Register(ctx, store.Worker{ID: "w", Owner: "worker", Agents: []string{"echo"}}); err != nil {
				t.Fatal(err)
			}
			if err := there.Accounts().RevokeToken(there.ctx, "worker"); err != nil {
				t.Fatal(err)
			}
			_, err := here.Workers.Register(ctx, store.Worker{ID: "w2", Owner: "worker", Agents: []string{"echo"}})
			wantCode(t, err, mailroom.CodeUnauthenticated)
			if err := here.Accounts().RevokeToken(ledger.WithCaller(ctx, nil), "ann"); err != nil {
				t.Errorf("the server itself: %v", err)
			}
		})
	}
}
