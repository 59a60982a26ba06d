package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
)

// onStores runs a test with two servers on each kind of store.
func onStores(
	t *testing.T, observe func(other *fixture) ledger.Observe, test func(t *testing.T, here, there *fixture),
) {
	for _, s := range []*side{onMemory(), onFile(t.TempDir()), onPostgres(t)} {
		t.Run(s.name, func(t *testing.T) {
			handle := func() store.Store {
				rows := must(s.open())(t)
				t.Cleanup(func() {
					if err := rows.Close(); err != nil {
						t.Error(err)
					}
				})
				return rows
			}
			there := open(t, handle(), ledger.Options{})
			test(t, open(t, handle(), ledger.Options{Observe: observe(there)}), there)
		})
	}
}

func ofWorker(id, owner string) store.Worker {
	return store.Worker{ID: id, Owner: owner, Agents: []string{"echo"}}
}

// TestTheWorkersOfATokenEndInTheTransactionOfItsRevocation looks at the rows right after the transaction, as after a
// crash: the lease of the token's worker has ended with it, and that of another token's worker has not.
func TestTheWorkersOfATokenEndInTheTransactionOfItsRevocation(t *testing.T) {
	var dead map[string]bool
	observe := func(other *fixture) ledger.Observe {
		dead = map[string]bool{}
		return ledger.Observe{Operation: func(name string, _ error, _ time.Duration) {
			if name != "revoke token" {
				return
			}
			other.view(func(r store.Reader) error {
				rows, err := r.Workers()
				for _, w := range rows {
					dead[w.ID] = w.Dead
				}
				return err
			})
		}}
	}
	onStores(t, observe, func(t *testing.T, here, there *fixture) {
		for _, owner := range []string{"ann", "bob"} {
			must(here.Accounts().CreateToken(here.ctx, auth.Token{Name: owner, Sum: owner,
				Scopes: []auth.Permission{auth.PermissionWork}}))(t)
			must(there.Register(there.ctx, ofWorker("of "+owner, owner)))(t)
		}
		if err := here.Accounts().RevokeToken(here.ctx, "ann"); err != nil {
			t.Fatal(err)
		}
		if !dead["of ann"] || dead["of bob"] || len(dead) != 2 {
			t.Errorf("dead workers after the revocation of ann: %v", dead)
		}
	})
}

// TestARevocationCancelsInItsTransaction looks at the rows right after the transaction, as after a crash.
func TestARevocationCancelsInItsTransaction(t *testing.T) {
	var left []string
	observe := func(other *fixture) ledger.Observe {
		return ledger.Observe{Operation: func(name string, _ error, _ time.Duration) {
			if name == "revoke token" {
				other.view(func(r store.Reader) error {
					rows, err := r.Runs(store.RunQuery{Statuses: []mailroom.Status{mailroom.StatusQueued}})
					left = nil
					for _, run := range rows {
						left = append(left, run.Thread)
					}
					return err
				})
			}
		}}
	}
	onStores(t, observe, func(t *testing.T, here, there *fixture) {
		must(here.Accounts().CreateToken(here.ctx, auth.Token{Name: "ann", Sum: "1",
			Scopes: []auth.Permission{auth.PermissionSubmit}}))(t)
		for _, owner := range []string{"ann", "ann", "bob"} {
			in := submitAs(owner, "of "+owner, "x")
			in.NotBefore = time.Now().Add(time.Hour)
			there.submit(in)
		}
		must(here.Accounts().Revoke(here.ctx, ledger.Revocation{Name: "ann", Cancel: true, By: "admin"}))(t)
		if len(left) != 1 || left[0] != "of bob" {
			t.Errorf("runs in %q are left with the revocation, want one of bob", left)
		}
	})
}

// TestARevocationCancelsWhatTheTokenQueued revokes a token whose threads have a running, a queued and a scheduled run,
// without and with cancelling. The run of another token goes on, and so do those of the next token of the name.
func TestARevocationCancelsWhatTheTokenQueued(t *testing.T) {
	none := func(*fixture) ledger.Observe { return ledger.Observe{} }
	onStores(t, none, func(t *testing.T, here, there *fixture) {
		create := func(name, sum string) {
			must(here.Accounts().CreateToken(here.ctx, auth.Token{Name: name, Sum: sum,
				Scopes: []auth.Permission{auth.PermissionSubmit}}))(t)
		}
		create("ann", "1")
		create("bob", "2")
		submit := func(owner, threadID string, at time.Time) string {
			in := submitAs(owner, threadID, "x")
			in.Agent, in.NotBefore = "echo", at
			return there.submit(in).Run
		}
		later := time.Now().Add(time.Hour)
		running := submit("ann", "hers", time.Time{})
		there.register("w")
		there.claimOne("w")
		queued, scheduled, foreign := submit("ann", "hers", time.Time{}), submit("ann", "hers too", later),
			submit("bob", "his", later)
		if out := must(here.Accounts().Revoke(here.ctx, ledger.Revocation{Name: "ann"}))(t); out.Open != 3 ||
			out.Cancelled != 0 {
			t.Errorf("without cancelling: %+v, want 3 open runs", out)
		}
		wantStatus := func(run string, want mailroom.Status, stop mailroom.Reason) {
			t.Helper()
			if r := here.run(run); r.Status != want || r.Stop != stop {
				t.Errorf("run %s is %s, stopped by %q, want %s and %q", run, r.Status, r.Stop, want, stop)
			}
		}
		wantStatus(queued, mailroom.StatusQueued, "")
		// Again, as a person does who reads how many are left.
		if out := must(here.Accounts().Revoke(here.ctx, ledger.Revocation{Name: "ann", Cancel: true, By: "admin"}))(
			t); out.Open != 0 || out.Cancelled != 3 {
			t.Errorf("with cancelling: %+v, want 3 cancelled runs", out)
		}
		wantStatus(running, mailroom.StatusRunning, mailroom.ReasonCancelled)
		for _, run := range []string{queued, scheduled} {
			if r := here.run(run); r.Status != mailroom.StatusCancelled {
				t.Errorf("run %s is %s, want cancelled", run, r.Status)
			}
		}
		wantStatus(foreign, mailroom.StatusQueued, "")
		create("ann", "3")
		next := submit("ann", "hers", later)
		if err := here.Accounts().RevokeToken(here.ctx, "bob"); err != nil {
			t.Fatal(err)
		}
		wantStatus(next, mailroom.StatusQueued, "")
		session := must(here.Accounts().DeriveToken(here.ctx, auth.Token{
			Sum: "4", Terms: auth.Terms{Kind: auth.KindLimited, Scopes: []auth.Permission{auth.PermissionSubmit},
				ExpiresAt: later},
		}, &auth.Token{Name: "ann", Sum: "3", Scopes: []auth.Permission{auth.PermissionSubmit}}))(t)
		if _, err := here.Accounts().Revoke(here.ctx, ledger.Revocation{Name: session.Name,
			Cancel: true}); mailroom.CodeOf(err) != mailroom.CodeInvalid {
			t.Errorf("a limited token has no threads of its own: %v", err)
		}
	})
}

// TestARevocationCancelsMoreThanOneTransactionTakes has more runs than the first transaction cancels.
func TestARevocationCancelsMoreThanOneTransactionTakes(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	must(d.Accounts().CreateToken(d.ctx, auth.Token{Name: "ann", Sum: "1",
		Scopes: []auth.Permission{auth.PermissionSubmit}}))(t)
	const threads, each = 30, 35
	for i := range threads {
		for range each {
			in := submitAs("ann", fmt.Sprint("t", i), "x")
			in.Agent, in.NotBefore = "echo", time.Now().Add(time.Hour)
			d.submit(in)
		}
	}
	out := must(d.Accounts().Revoke(d.ctx, ledger.Revocation{Name: "ann", Cancel: true, By: "admin"}))(t)
	if out.Cancelled != threads*each {
		t.Errorf("cancelled %d runs, want %d", out.Cancelled, threads*each)
	}
	d.view(func(r store.Reader) error {
		rows, err := r.Runs(store.RunQuery{Statuses: []mailroom.Status{mailroom.StatusQueued}})
		if len(rows) != 0 {
			t.Errorf("%d runs are left", len(rows))
		}
		return err
	})
}

// TestARevocationReadsNoMoreRunsThanItMust has 3,000 open runs of another token, older than those of the revoked one. A
// token without open runs reads none.
func TestARevocationReadsNoMoreRunsThanItMust(t *testing.T) {
	rows := &counting{Store: memory.New()}
	d := open(t, rows, ledger.Options{})
	for _, name := range []string{"ann", "bob", "idle"} {
		must(d.Accounts().CreateToken(d.ctx, auth.Token{Name: name, Sum: name,
			Scopes: []auth.Permission{auth.PermissionSubmit}}))(t)
	}
	submit := func(owner string, n int) {
		for i := range n {
			in := submitAs(owner, fmt.Sprint(owner, i%10), "x")
			in.Agent, in.NotBefore = "echo", time.Now().Add(time.Hour)
			d.submit(in)
		}
	}
	submit("bob", 3000)
	submit("ann", 5)
	for name, most := range map[string]int{"idle": 50, "ann": 1200} {
		rows.reset()
		out := must(d.Accounts().Revoke(d.ctx, ledger.Revocation{Name: name, Cancel: true, By: "admin"}))(t)
		if want := map[string]int{"ann": 5}[name]; out.Cancelled != want {
			t.Errorf("%s: cancelled %d runs, want %d", name, out.Cancelled, want)
		}
		if n := rows.reset().Rows; n > most {
			t.Errorf("%s: read %d rows, want at most %d", name, n, most)
		}
	}
}
