package doctor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/doctor"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/thread"
)

func TestAConsistentStoreHasNoFindings(t *testing.T) {
	w := newFixture(t).fill()
	for name, v := range map[string]doctor.Viewer{"the store": w.store, "the ledger over it": w,
		"a copy of its rows": w.rows().store()} {
		got := check(t, v)
		for _, f := range got.Findings {
			t.Errorf("%s: %+v", name, f)
		}
		if got.Entries == 0 {
			t.Errorf("%s: no entries", name)
		}
		got.Findings, got.Entries = nil, 0
		want := doctor.Report{Threads: 5, Runs: 11, Tickets: 4, Keys: 3, Partials: 2, Workers: 1}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: checked %+v, want %+v", name, got, want)
		}
	}
}

// violation is a change of rows that breaks an invariant.
type violation struct {
	name  string
	spoil func(r *rows)
	want  doctor.Invariant
	words string
}

func (v violation) run(t *testing.T, w *fixture) {
	t.Helper()
	r := w.rows()
	v.spoil(r)
	var others []string
	for _, f := range check(t, r.store()).Findings {
		if f.Invariant == v.want && strings.Contains(f.String(), v.words) {
			return
		}
		others = append(others, fmt.Sprintf("%s: %s", f.Invariant, f))
	}
	t.Errorf("%s: found %q, want %s: %q", v.name, others, v.want, v.words)
}

func TestEachViolationIsFound(t *testing.T) {
	w := newFixture(t).fill()
	for of, list := range map[string][]violation{
		"log": logViolations(), "runs": runViolations(), "threads": threadViolations(), "tickets": ticketViolations(),
		"blobs":         blobViolations(),
		"limits":        limitViolations(),
		"reservations":  reservationViolations(),
		"notifications": notificationViolations(),
	} {
		for _, v := range list {
			t.Run(of+"/"+v.name, func(t *testing.T) { v.run(t, w) })
		}
	}
}

// A newer version that shares the store may write kinds of entries that this one does not know.
func TestEntriesOfANewerVersionAreNoFindings(t *testing.T) {
	r := newFixture(t).fill().rows()
	for run, attempt := range map[string]int{"now": 2, "q1": 0, "done": 1, "": 0} {
		for _, kind := range []string{"run.newer", "message.newer", "newer"} {
			r.another(kind, run, attempt, json.RawMessage(`{"newer":[1]}`))
		}
	}
	for _, list := range r.Entries[len(r.Entries)-12:] {
		r.thread("t").Bytes += int64(len(list[0].Raw))
	}
	for _, f := range check(t, r.store()).Findings {
		t.Errorf("%+v", f)
	}
}

func TestAClaimOfADeadWorkerIsFoundOnceItIsOverdue(t *testing.T) {
	w := newFixture(t).fill()
	ago := func(d time.Duration) time.Time { return time.Now().Add(-d) }
	for _, x := range []struct {
		name  string
		lease time.Time // end of the lease of the claim's worker
		other time.Time // start of another live worker; zero: none
		found bool
	}{
		{"no other worker", ago(time.Hour), time.Time{}, false},
		{"another worker has just started", ago(time.Hour), ago(time.Minute), false},
		{"the lease has just ended", ago(time.Minute), ago(time.Hour), false},
		{"another worker should have freed it", ago(time.Hour), ago(10 * time.Minute), true},
	} {
		r := w.rows()
		r.Workers[0].LeaseUntil = x.lease
		if !x.other.IsZero() {
			r.Workers = append(r.Workers, &store.Worker{ID: "v", StartedAt: x.other, LeaseUntil: time.Now().Add(time.Hour)})
		}
		found := check(t, r.store()).Findings
		if got := len(found) == 1 && found[0].Invariant == doctor.Claim; got != x.found || len(found) > 0 != x.found {
			t.Errorf("%s: %v", x.name, found)
		}
	}
}

// A log may begin after the end of runs that were purged.
func TestAPurgedLogHasNoFindings(t *testing.T) {
	w := newFixture(t).fill()
	if err := w.Purge(t.Context(), "t", -time.Hour); err != nil {
		t.Fatal(err)
	}
	report := check(t, w.store)
	if !report.Sound() || report.Runs != 8 {
		t.Errorf("got %d runs and findings %v, want 8 and none", report.Runs, report.Findings)
	}
}

func TestALogWithEntriesOfAPurgedRunHasNoFindings(t *testing.T) {
	w := newFixture(t).fill()
	for _, gone := range []struct {
		first string // run whose first entry is the first entry of the purged log
		found bool
	}{{"dead", false}, {"done", true}} {
		r := w.rows()
		first := r.run(gone.first).FirstSeq
		r.dropRun("done")
		var kept [][]mailroom.Entry
		for _, list := range r.Entries {
			if list[0].Thread != "t" || list[0].Seq >= first {
				kept = append(kept, list)
			}
		}
		r.Entries, r.thread("t").FirstSeq = kept, first
		r.measure("t")
		found := check(t, r.store()).Findings
		if len(found) > 0 != gone.found {
			t.Errorf("from run %s on: %v", gone.first, found)
		}
	}
}

// If a message that was steered to a run is superseded before it became a run, only the end of that
// run is in the log.
func TestAPurgedLogWithASupersededSteerHasNoFindings(t *testing.T) {
	w := newFixture(t)
	w.submit("t", "old")
	w.settle(thread.Settle{Claim: w.claim("old"), Number: 1, Outcome: thread.OutcomeComplete})
	w.submit("t", "now")
	w.claim("now")
	w.submit("t", "aside", func(in *thread.Submit) { in.Mode = mailroom.ModeSteer })
	if _, err := w.Interrupt(t.Context(), "t", &auth.Token{Name: "ann", Scopes: auth.Permissions()}); err != nil {
		t.Fatal(err)
	}
	r := w.rows()
	first := r.run("now").FirstSeq
	r.dropRun("old")
	r.Entries = slices.DeleteFunc(r.Entries, func(list []mailroom.Entry) bool { return list[0].Seq < first })
	r.thread("t").FirstSeq = first
	r.measure("t")
	for _, f := range check(t, r.store()).Findings {
		t.Error(f)
	}
}

// A log that takes several views is checked like a short one, also if it grows between two views.
func TestALongLogIsReadInViews(t *testing.T) {
	w := newFixture(t).fill()
	w.backlog("long", 1500)
	views := 0
	grow := viewer(func(ctx context.Context, f func(store.Reader) error) error {
		views++
		if views%2 == 0 {
			w.submit("long", fmt.Sprint("v", views))
			w.submit("p", fmt.Sprint("w", views))
			_, err := w.Cancel(ctx, fmt.Sprint("r", views), "ann")
			w.must(err)
		}
		return w.store.View(ctx, f)
	})
	report := check(t, grow)
	if views < 2 {
		t.Errorf("%d views for 3000 entries and 1500 runs, want more", views)
	}
	if !report.Sound() {
		t.Errorf("findings during writes: %v", report.Findings)
	}
	if report.Runs < 1511 {
		t.Errorf("%d runs, want the 1511 of the beginning", report.Runs)
	}
}

// A thread that is deleted during its check is skipped.
func TestAThreadMayBeDeletedDuringTheCheck(t *testing.T) {
	w := newFixture(t).fill()
	w.backlog("long", 1500)
	views := 0
	report := check(t, viewer(func(ctx context.Context, f func(store.Reader) error) error {
		if views++; views == 2 {
			w.must(w.store.Update(ctx, func(tx store.Tx) error {
				return tx.Write(&store.Changes{DropThreads: []string{"long"}})
			}))
		}
		return w.store.View(ctx, f)
	}))
	if views < 2 || !report.Sound() || report.Runs >= 1511 {
		t.Errorf("got %d runs in %d views, findings %v; want less than 1511 runs", report.Runs, views, report.Findings)
	}
}

type viewer func(ctx context.Context, f func(store.Reader) error) error

func (v viewer) View(ctx context.Context, f func(store.Reader) error) error { return v(ctx, f) }

func TestAStoreThatCannotBeReadIsAnError(t *testing.T) {
	broken := errors.New("broken")
	_, err := doctor.Check(t.Context(), viewer(func(context.Context, func(store.Reader) error) error { return broken }))
	if !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
}

func TestAReportIsBounded(t *testing.T) {
	r := newFixture(t).fill().rows()
	for i := range doctor.MaxFindings + 7 {
		r.Threads = append(r.Threads, &mailroom.Thread{ID: fmt.Sprint("x", i), Owner: "ann", FirstSeq: 1,
			NextPlace: 1, Round: 1})
	}
	report := check(t, r.store())
	if len(report.Findings) != doctor.MaxFindings || report.More != 7 {
		t.Errorf("got %d findings and %d more, want %d and 7", len(report.Findings), report.More, doctor.MaxFindings)
	}
}

func TestAnEmptyStoreHasNoFindings(t *testing.T) {
	if report := check(t, memory.New()); !report.Sound() || report.Threads != 0 {
		t.Errorf("got %+v", report)
	}
}
