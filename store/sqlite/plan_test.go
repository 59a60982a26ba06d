package sqlite

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/store"
	"mailroom/store/internal/sqlstore"
	"mailroom/store/storetest"
)

func openTest(t *testing.T, o Options) *Store {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "mail.db"), o)
}

func openAt(t *testing.T, path string, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// usual runs every kind of query and write that the ledger makes in its transactions, so that their
// statements are prepared.
func usual(t *testing.T, s *Store) {
	t.Helper()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	row := &mailroom.Thread{ID: "t", Due: mailroom.Due{At: now, Agent: "a"}}
	run := &mailroom.Run{ID: "r", Thread: "t", Status: mailroom.StatusQueued}
	asked := &mailroom.Ticket{ID: "q", Thread: "t", Run: "r"}
	held := &mailroom.Run{ID: "h", Thread: "t", Status: mailroom.StatusQueued, Scheduled: true, NotBefore: now}
	entry, err := entry.New("t", 1, entry.KindStep, "r", 1, now, entry.StepNamed{})
	if err != nil {
		t.Fatal(err)
	}
	err = s.Update(t.Context(), func(tx store.Tx) error {
		_, _, err := storetest.Lock(tx, []string{"w"}, []string{"t", "u"})
		if err != nil {
			return err
		}
		c := &store.Changes{
			Threads: []*mailroom.Thread{row}, Runs: []*mailroom.Run{run, held}, Entries: [][]mailroom.Entry{{entry}},
			Keys:        []store.SubmitKey{{Thread: "t", Key: "k"}},
			Partials:    []store.Partial{{Run: "r"}},
			Workers:     []*store.Worker{{ID: "w"}},
			Tickets:     []*mailroom.Ticket{asked},
			Definitions: []store.Definition{{Agent: "a", Version: "1"}},
			Cursors:     []store.Cursor{{Channel: "c"}}, Reservations: []store.Reservation{{ID: "v", Thread: "t"}},
		}
		if err := tx.Write(c); err != nil {
			return err
		}
		held.Asked = 1
		return tx.Write(&store.Changes{
			Threads: []*mailroom.Thread{row}, Runs: []*mailroom.Run{run, held}, Tickets: []*mailroom.Ticket{asked},
			DropPartials: []string{"r"}, DropWorkers: []string{"w"}, DropThreads: []string{"u"},
			DropDefinitions: []store.Definition{{Agent: "a", Version: "1"}}, DropCursors: []store.Cursor{{Channel: "c"}},
			DropReservations: []string{"v"}, DropTokens: []string{"x"},
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	err = s.Update(t.Context(), func(tx store.Tx) error {
		due, _, err := storetest.Due(tx, now, []store.Capacity{{Agent: "a", Slots: 2},
			{Agent: "a", Slots: 2, Share: &store.Share{Most: 1}}})
		if err == nil && len(due) != 2 {
			t.Errorf("got %d due threads, want one twice", len(due))
		}
		for _, query := range queries(tx) {
			if err := query(); err != nil {
				return err
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	purge(t, s)
}

// queries returns the queries that the ledger makes in its transactions, and those of a report.
func queries(tx store.Tx) []func() error {
	list := []func() error{
		func() error { _, err := tx.Threads(store.ThreadQuery{OnePerAgent: true}); return err },
		func() error { _, err := tx.Threads(store.ThreadQuery{DeliverTo: "t", Limit: 5}); return err },
		func() error { _, err := tx.Threads(store.ThreadQuery{Deleted: true, Limit: 5}); return err },
		func() error { _, err := tx.Threads(store.ThreadQuery{Prefix: "t", Limit: 5}); return err },
		func() error { _, err := tx.Count(store.CountQuery{}); return err },
		func() error { _, err := tx.Count(store.CountQuery{Owner: new(string)}); return err },
		func() error { _, err := tx.Count(store.CountQuery{Thread: "t", Most: 5}); return err },
		func() error { _, err := tx.Reservations(store.ReservationQuery{Thread: "t"}); return err },
		func() error { _, err := tx.Reservations(store.ReservationQuery{ID: "v"}); return err },
		func() error { _, err := tx.Cursors(store.CursorQuery{Channel: "c"}); return err },
		func() error {
			_, err := tx.Cursors(store.CursorQuery{Channel: "c", Identities: []string{"x", "y"}})
			return err
		},
		func() error { _, err := tx.Keys(store.KeyQuery{Thread: "t", Keys: []string{"k"}}); return err },
		func() error {
			_, err := tx.Keys(store.KeyQuery{Thread: "t", All: true, After: "k", Limit: 5})
			return err
		},
		func() error {
			_, err := tx.Cursors(store.CursorQuery{After: store.CursorRef{Channel: "c"}, Limit: 5})
			return err
		},
		func() error { _, err := tx.Partials("r"); return err },
		func() error { _, err := tx.Entries(store.EntryQuery{Thread: "t", Before: 5}); return err },
		func() error {
			_, err := tx.Entries(store.EntryQuery{Thread: "t", Before: 5, Backward: true})
			return err
		},
		func() error { _, err := tx.Threads(store.ThreadQuery{IDs: []string{"t"}}); return err },
		func() error { _, err := tx.Threads(store.ThreadQuery{Worker: "w", Limit: 5}); return err },
		func() error { _, err := tx.Threads(store.ThreadQuery{Owner: "o", From: 7, Limit: 5}); return err },
		func() error { _, err := tx.Threads(store.ThreadQuery{Agent: "a", Limit: 5}); return err },
	}
	for _, q := range []store.RunQuery{
		{IDs: []string{"r"}, Thread: "t"},
		{IDs: []string{"r", "h"}, Statuses: []mailroom.Status{mailroom.StatusQueued}},
		{Thread: "t", Set: store.RunsQueued, Limit: 1},
		{Thread: "t", Set: store.RunsScheduled, Limit: 1},
		{Thread: "t", Limit: 5},
		{Thread: "t", From: 7, Limit: 5},
		{Statuses: []mailroom.Status{mailroom.StatusFailed}, Limit: 5},
		{Statuses: []mailroom.Status{mailroom.StatusWaiting}, Limit: 5},
		{Statuses: []mailroom.Status{mailroom.StatusQueued, mailroom.StatusRunning}, From: 7, Limit: 5},
		{Statuses: []mailroom.Status{mailroom.StatusFailed, mailroom.StatusCancelled}, Oldest: true, From: 7, Limit: 5},
		{Agent: "a", Limit: 5}, {Agent: "a", From: 7, Limit: 5},
		{Agent: "a", Statuses: []mailroom.Status{mailroom.StatusCompleted}, Limit: 5},
		{Owner: "o", Limit: 5}, {Owner: "o", From: 7, Limit: 5}, {Owner: "o", From: 7, Oldest: true, Limit: 5},
		{Group: "g", Limit: 5}, {Group: "g", From: 7, Limit: 5}, {Group: "g", Oldest: true, Limit: 5},
		{Group: "g", Owner: "o", Limit: 5}, {Group: "g", Owner: "o", From: 7, Limit: 5},
		{Owner: "o", Threads: []int64{1, 2}, Limit: 1}, {Threads: []int64{1}, From: 7, Oldest: true, Limit: 5},
		{From: 7, Limit: 5}, {Statuses: []mailroom.Status{mailroom.StatusWaiting, mailroom.StatusRunning}, From: 7, Limit: 5},
		{From: 7, Oldest: true, Limit: 1}, {Prefix: "r", Limit: 5}, {Prefix: "r", After: "r", Limit: 5},
		{Parent: "r", Limit: 5},
		{Parent: "r", Statuses: []mailroom.Status{mailroom.StatusWaiting}, Limit: 5},
		{Parent: "r", Statuses: []mailroom.Status{mailroom.StatusQueued, mailroom.StatusRunning, mailroom.StatusWaiting}, Limit: 5},
	} {
		list = append(list,
			func() error { _, err := tx.Runs(q); return err },
			func() error {
				_, err := tx.Count(store.CountQuery{Thread: q.Thread, Agent: q.Agent, Statuses: q.Statuses, Set: q.Set})
				return err
			})
	}
	list = append(list, func() error { _, err := tx.Tokens("a"); return err })
	open := []mailroom.TicketState{mailroom.TicketOpen}
	for _, q := range []store.TicketQuery{
		{IDs: []string{"q"}}, {Prefix: "q", Limit: 5}, {Runs: []string{"r"}}, {Runs: []string{"r", "s"}, States: open},
		{Thread: "t", Limit: 5}, {Thread: "t", States: open}, {Thread: "t", From: 7, Kinds: []mailroom.TicketKind{mailroom.TicketApproval}},
		{Owner: "o", Limit: 5}, {Owner: "o", From: 7, States: open, Limit: 5}, {Owner: "o", Threads: []int64{1, 2}, States: open, Limit: 5},
		{From: 7, Limit: 5}, {Owner: "o", From: 7, Limit: 5}, {From: 7, Oldest: true, Limit: 1},
		{States: open, Limit: 5}, {States: open, From: 7, Kinds: []mailroom.TicketKind{mailroom.TicketApproval, mailroom.TicketEvent}},
	} {
		list = append(list, func() error { _, err := tx.Tickets(q); return err })
	}
	return list
}

// purge drops the beginning of a thread that has rows of every kind.
func purge(t *testing.T, s *Store) {
	t.Helper()
	var log []mailroom.Entry
	for seq := int64(1); seq <= 3; seq++ {
		e, err := entry.New("p", seq, entry.KindStep, "p", 1, time.Time{}, entry.StepNamed{})
		if err != nil {
			t.Fatal(err)
		}
		log = append(log, e)
	}
	row := &mailroom.Thread{ID: "p", LastSeq: 3}
	for _, c := range []*store.Changes{
		{
			Threads: []*mailroom.Thread{row}, Entries: [][]mailroom.Entry{log},
			Runs: []*mailroom.Run{{ID: "p", Thread: "p", SubmitKey: "k", FirstSeq: 1}},
		},
		{Threads: []*mailroom.Thread{row}, DropEntries: []store.Prefix{{Thread: "p", Seq: 2}}},
	} {
		if err := s.Update(t.Context(), func(tx store.Tx) error { return tx.Write(c) }); err != nil {
			t.Fatal(err)
		}
	}
}

// explain returns the steps of SQLite's plan for a statement.
func explain(t *testing.T, s *Store, text string) []string {
	t.Helper()
	var plan []string
	err := s.writer.query(t.Context(), "EXPLAIN QUERY PLAN "+text, nulls(text),
		func(c *columns) (bool, error) {
			plan = append(plan, c.row.text(3))
			return true, nil
		})
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// nulls returns NULL for each parameter of a statement. Either all of them have a number or none.
func nulls(text string) []any {
	for number := 9; number > 0; number-- {
		if strings.Contains(text, "?"+strconv.Itoa(number)) {
			return make([]any, number)
		}
	}
	return make([]any, strings.Count(text, "?"))
}

// statements returns the texts that a transaction prepared.
func statements(t *testing.T, s *Store) []string {
	t.Helper()
	usual(t, s)
	var texts []string
	for text := range s.writer.stmts {
		if verb, _, _ := strings.Cut(text, " "); !slices.Contains([]string{"BEGIN", "COMMIT", "ROLLBACK"}, verb) {
			texts = append(texts, text)
		}
	}
	if len(texts) < 30 {
		t.Fatalf("got %d statements: the test does not run them all", len(texts))
	}
	return texts
}

func TestNoStatementOfATransactionScansATableOrSorts(t *testing.T) {
	s := openTest(t, Options{})
	for _, text := range statements(t, s) {
		plan := explain(t, s, text)
		for _, step := range plan {
			if strings.HasPrefix(step, "SCAN") && step != "SCAN CONSTANT ROW" && !strings.HasPrefix(step, "SCAN (subquery") &&
				!strings.HasSuffix(step, "-ROW VALUES CLAUSE") && step != "SCAN chain" && step != "SCAN c" || // the new rows
				strings.Contains(step, "TEMP B-TREE") {
				t.Errorf("%s\nplan: %s", text, strings.Join(plan, "\n      "))
			}
		}
	}
}

func TestDueReadsOnlyItsIndex(t *testing.T) {
	s := openTest(t, Options{})
	for text, want := range map[string]string{
		dueBehind:     "thread_due (due_agent=? AND due_alone=? AND due_priority>?)",
		dueOfOwner:    "thread_due_owner (due_agent=? AND due_alone=? AND due_owner=? AND due_priority>?)",
		dueFirstOwner: "thread_due_owner (due_agent=? AND due_alone=? AND due_owner>?)",
		dueNextOwner:  "thread_due_owner (due_agent=? AND due_alone=? AND due_owner>?)",
		nextClaims:    "thread_due (due_agent>? AND due_agent<?)",
		claimsOf:      "thread_due (due_agent=?)",
	} {
		got := strings.Join(explain(t, s, text), "; ")
		if want = "SEARCH thread USING COVERING INDEX " + want; got != want {
			t.Errorf("got plan %q, want %q", got, want)
		}
	}
}

// Without statistics, which no store has, these are the plans for any number of rows.
func TestListsReadTheirGroupsInTheOrderOfAnIndex(t *testing.T) {
	s := openTest(t, Options{})
	list := func(table, deleted string, p page) string {
		q := groupKeys(table, []group{{"ann", "echo"}})[0]
		if deleted != "" {
			q.Cond(deleted)
		}
		q.ByKey("key", p.from, p.oldest)
		q.Limit(p.limit)
		return q.Text()
	}
	runs := func(columns string) string { return "SEARCH run USING COVERING INDEX run_owner_agent " + columns }
	threads := func(covering, columns string) string {
		return "SEARCH thread USING " + covering + "INDEX thread_owner_agent " + columns
	}
	for text, want := range map[string]string{
		nextAgentOfRuns:                                   runs("(owner=? AND agent>?)"),
		nextOwnerOfRuns:                                   runs("(owner>?)"),
		nextAgentOfThreads:                                threads("COVERING ", "(owner=? AND agent>?)"),
		nextOwnerOfThreads:                                threads("COVERING ", "(owner>?)"),
		list("run", "", page{limit: 5}):                   runs("(owner=? AND agent=?)"),
		list("run", "", page{from: 7, limit: 5}):          runs("(owner=? AND agent=? AND rowid<?)"),
		list("run", "", page{from: 7, oldest: true}):      runs("(owner=? AND agent=? AND rowid>?)"),
		list("thread", "deleted IS NULL", page{limit: 5}): threads("", "(owner=? AND agent=?)"),
		list("thread", "deleted IS NULL", page{from: 7}):  threads("", "(owner=? AND agent=? AND rowid<?)"),
	} {
		if got := strings.Join(explain(t, s, text), "; "); got != want {
			t.Errorf("%s: got plan %q, want %q", text, got, want)
		}
	}
}

// The sums of failures sort groups, but not the failures that they read.
func TestNewestFailuresAreReadInTheOrderOfAnIndex(t *testing.T) {
	s := openTest(t, Options{})
	for cond, want := range map[string]string{
		"":          "SCAN failure",
		"owner = ?": "SEARCH failure USING INDEX failure_owner (owner=?)",
		"agent = ?": "SEARCH failure USING INDEX failure_agent (agent=?)",
	} {
		var q sqlstore.Select
		q.Add(sqlstore.NewestFailures)
		if cond != "" {
			q.Cond(cond)
		}
		if got := strings.Join(explain(t, s, q.Text()+" ORDER BY run DESC LIMIT ?"), "; "); got != want {
			t.Errorf("%q: got plan %q, want %q", cond, got, want)
		}
	}
}

// The rows of an agent are read in the order of the primary key, once, and each value of a row is added once: a status
// has its own sum of runs, and a row reaches one of them.
func TestSumsOfAgentsReadEachRowOnceWithoutASort(t *testing.T) {
	s := openTest(t, Options{})
	want := "SCAN u VIRTUAL TABLE INDEX 1:; CORRELATED SCALAR SUBQUERY 1; " +
		"SEARCH summary USING PRIMARY KEY (step=? AND agent=? AND at>? AND at<?)"
	for _, text := range []string{addedSummaries, boundedSummaries} {
		if got := strings.Join(explain(t, s, text), "; "); got != want {
			t.Errorf("got plan %q, want %q", got, want)
		}
	}
	added := 0
	count := func(c *columns) (bool, error) {
		if c.row.text(1) == "AggStep" {
			added++
		}
		return true, nil
	}
	err := s.writer.query(t.Context(), "EXPLAIN "+addedSummaries, make([]any, 4), count)
	if err != nil || added != sqlstore.AddedSums {
		t.Errorf("%d sums of a row, want %d (%v)", added, sqlstore.AddedSums, err)
	}
}

func TestEveryIndexServesAQuery(t *testing.T) {
	s := openTest(t, Options{})
	var plans strings.Builder
	for _, text := range statements(t, s) {
		if strings.HasPrefix(text, "SELECT") || strings.HasPrefix(text, "DELETE") {
			plans.WriteString(strings.Join(explain(t, s, text), "\n"))
		}
	}
	for _, index := range []string{
		"thread_due", "thread_due_owner", "run_thread", "run_queue", "run_held", "run_status", "run_owner_agent",
		"thread_deliver", "thread_deleted", "entry_thread",
		"run_parent", "run_late", "submit_key_joined", "thread_owner_agent", "failure_group",
		"ticket_run", "ticket_thread", "ticket_open", "ticket_open_thread", "ticket_owner", "ticket_open_owner",
		"failure_owner_group",
	} {
		if !strings.Contains(plans.String(), "INDEX "+index+" ") {
			t.Errorf("no query uses the index %s", index)
		}
	}
}
