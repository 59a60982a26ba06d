package alert_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/alert"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/entry"
	"mailroom/internal/pgtest"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/store/postgres"
	"mailroom/store/sqlite"
)

// onEachStore runs a test on an empty store of each kind.
func onEachStore(t *testing.T, test func(t *testing.T, s store.Store)) {
	for name, open := range map[string]func(t *testing.T) (store.Store, error){
		"memory": func(*testing.T) (store.Store, error) { return memory.New(), nil },
		"SQLite": func(t *testing.T) (store.Store, error) {
			return sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "mail.db"), sqlite.Options{})
		},
		"PostgreSQL": func(t *testing.T) (store.Store, error) {
			cluster := pgtest.Own(t)
			return postgres.Open(t.Context(), postgres.Options{URL: cluster.URL(), Schema: cluster.Schema(t), AllowUnsafe: true,
				IdleInTransaction: 5 * time.Minute, LockTimeout: 5 * time.Minute, ConnectTimeout: time.Minute})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := open(t)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}()
			test(t, s)
		})
	}
}

// addOlder writes runs of ann's threads that completed a month ago, each with a timer that ended.
func addOlder(t *testing.T, s store.Store, runs int) {
	t.Helper()
	const each, batch = 10, 1000
	at := time.Now().AddDate(0, -1, 0).UTC().Truncate(time.Microsecond)
	reply := strings.Repeat("done ", 20)
	for first := 0; first < runs; first += batch {
		var c store.Changes
		for i := first; i < min(first+batch, runs); i++ {
			id := fmt.Sprintf("old-%07d", i)
			place := fmt.Sprintf("older-%07d", i/each)
			if i%each == 0 {
				c.Threads = append(c.Threads, &mailroom.Thread{ID: place, Owner: "ann", Agent: "coder", FirstSeq: 1,
					NextPlace: 1, CreatedAt: at, UpdatedAt: at})
			}
			c.Runs = append(c.Runs, &mailroom.Run{ID: id, Thread: place, Agent: "coder", Status: mailroom.StatusCompleted,
				CreatedAt: at, FinishedAt: at.Add(time.Minute), FirstSeq: 1, Reply: &reply})
			c.Tickets = append(c.Tickets, &mailroom.Ticket{ID: "timer-" + id, Thread: place, Run: id, Agent: "coder",
				Name: "later", Kind: mailroom.TicketTimer, State: mailroom.TicketExpired, OpenedAt: at})
		}
		if err := s.Update(t.Context(), func(tx store.Tx) error { return tx.Write(&c) }); err != nil {
			t.Fatal(err)
		}
	}
}

// playShort plays a night with each kind of end: of a branch, a failure, an open and a decided question.
func (n *night) playShort() (since time.Time) {
	since = time.Now()
	for _, place := range []string{"cart", "login", "search", "deploy", "prices"} {
		n.submit(map[bool]string{true: "tester", false: "coder"}[place == "search"], place)
	}
	n.claim("coder", "tester")
	for _, c := range n.held {
		usage := mailroom.Usage{InputTokens: 100, OutputTokens: 10, CostUSD: 0.5}
		switch place := c.Run.Thread; place {
		case "search":
			n.play(c, attempt{usage: usage, fail: "3 tests failed", class: mailroom.ClassPermanent})
		case "deploy", "prices":
			n.play(c, attempt{usage: usage, ask: "May I " + place + "?"})
		default:
			n.play(c, attempt{usage: usage, reply: "done", tree: &entry.Tree{Branch: "mailroom/" + place, Commits: 1}})
		}
	}
	for _, k := range n.open() {
		if k.Thread == "prices" {
			n.decide(k.ID)
		}
	}
	return since
}

// inShort returns the numbers of a report, and the names of its branches.
func inShort(r *api.Report) string {
	out := fmt.Sprintf("%d done, %d failed, %d open; $%.2f and $%.2f; %d agents; %d asked, %d decided;", r.Runs.Completed,
		r.Runs.Failed, r.Runs.Waiting+r.Runs.Queued+r.Runs.Running, r.Spent.CostUSD, r.OpenSpent.CostUSD, len(r.Agents),
		r.Questions.Open, r.Questions.Decided)
	for _, b := range r.Branches {
		out += " " + b.Branch
	}
	return out
}

// TestAReportOnEachStoreReadsItsPeriod has a night behind months of work.
func TestAReportOnEachStoreReadsItsPeriod(t *testing.T) {
	const older, bound = 4000, 1500 // the night has a few rows, and a page has 500
	ann := &auth.Token{Name: "ann", Scopes: []auth.Permission{auth.PermissionRead}}
	onEachStore(t, func(t *testing.T, s store.Store) {
		addOlder(t, s, older)
		atNight(t, s, func(n *night) {
			since := n.playShort()
			until := time.Now().Add(time.Minute)
			for _, c := range []struct {
				what, want string
				query      alert.ReportQuery
			}{
				{"of all", "2 done, 1 failed, 2 open; $1.50 and $1.00; 2 agents; 1 asked, 1 decided; mailroom/login mailroom/cart",
					everything(since, until)},
				{"of ann", "2 done, 1 failed, 2 open; $1.50 and $1.00; 2 agents; 1 asked, 1 decided; mailroom/login mailroom/cart",
					alert.ReportQuery{Since: since, Until: until, Owner: "ann", See: ann.CanSee}},
				{"of tester", "0 done, 1 failed, 0 open; $0.50 and $0.00; 1 agents; 0 asked, 0 decided;",
					alert.ReportQuery{Since: since, Until: until, All: true, Agent: "tester"}},
				{"of bob", "0 done, 0 failed, 0 open; $0.00 and $0.00; 0 agents; 0 asked, 0 decided;",
					alert.ReportQuery{Since: since, Until: until, Owner: "bob", See: ann.CanSee}},
				{"of the hour before", "0 done, 0 failed, 0 open; $0.00 and $0.00; 0 agents; 0 asked, 0 decided;",
					everything(since.Add(-2*time.Hour), since.Add(-time.Hour))},
			} {
				n.view(func(r store.Reader) error {
					rows := &counted{Reader: r}
					began := time.Now()
					got, err := alert.ReadReport(rows, c.query)
					if err != nil {
						return err
					}
					t.Logf("%s: %d rows in %d reads, %s", c.what, rows.rows, rows.calls, time.Since(began))
					if inShort(got) != c.want || got.LookedTo != nil {
						t.Errorf("%s: got %q, want %q", c.what, inShort(got), c.want)
					}
					if rows.rows > bound {
						t.Errorf("%s: %d rows in %d reads", c.what, rows.rows, rows.calls)
					}
					return nil
				})
			}
		})
	})
}

// TestAReportLeavesOutWhatIsDeletedOrPurged has a thread whose rows are not dropped yet, and one without its log.
func TestAReportLeavesOutWhatIsDeletedOrPurged(t *testing.T) {
	ann := &auth.Token{Name: "ann", Scopes: []auth.Permission{auth.PermissionRead}}
	onEachStore(t, func(t *testing.T, s store.Store) {
		var since time.Time
		atNight(t, s, func(n *night) {
			since = n.playShort()
			n.done(n.ledger.Purge(context.Background(), "cart", time.Nanosecond))
		})
		err := s.Update(t.Context(), func(tx store.Tx) error {
			rows, err := tx.Threads(store.ThreadQuery{IDs: []string{"login"}})
			if err != nil {
				return err
			}
			rows[0].DeletedAt = time.Now().UTC().Truncate(time.Microsecond)
			return tx.Write(&store.Changes{Threads: rows})
		})
		if err != nil {
			t.Fatal(err)
		}
		for what, q := range map[string]alert.ReportQuery{"of all": {All: true}, "of ann": {Owner: "ann", See: ann.CanSee}} {
			q.Since, q.Until = since, time.Now().Add(time.Minute)
			err := s.View(t.Context(), func(r store.Reader) error {
				got, err := alert.ReadReport(r, q)
				const want = "0 done, 1 failed, 2 open; $0.50 and $1.00; 2 agents; 1 asked, 1 decided;"
				if err == nil && inShort(got) != want {
					t.Errorf("%s: got %q, want %q", what, inShort(got), want)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		}
	})
}
