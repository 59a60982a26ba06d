package feed_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gofrs/flock"

	"mailroom"
	"mailroom/auth"
	"mailroom/issues/tracker"
	"mailroom/project"
)

// bob is an agent in another clone.
func bob() *auth.Token {
	return &auth.Token{Name: "bob", Scopes: []auth.Permission{auth.PermissionSubmit, auth.PermissionRead},
		Namespace: "project:"}
}

func (w *fixture) bobReserves(id string) error {
	w.t.Helper()
	_, err := w.ledger.Projects().Reserve(w.t.Context(),
		project.Reserve{Project: "shop", Names: []string{".beads/issues/" + id}, Holder: "bob", By: bob()})
	return err
}

// reserved returns the reserved names with their holders.
func (w *fixture) reserved() (all []string) {
	w.t.Helper()
	rows, err := w.ledger.Projects().Reservations(context.Background(), "shop", bob())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range rows {
		all = append(all, r.Name+" "+r.Holder)
	}
	return all
}

func TestIssuesInProgressAreReserved(t *testing.T) {
	w := newFixture(t)
	w.options.Project = "shop"
	w.create("x-a")
	work, open := gatedWork("done")
	defer open()
	w.agent.setWork(work)
	w.start()
	w.waitFor("the agent running", func() bool { return w.agent.count("x-a") == 1 })
	if err := w.bobReserves("x-a"); mailroom.CodeOf(err) != mailroom.CodeConflict {
		t.Errorf("reservation by bob: %v, want a conflict", err)
	}
	w.stop()
	w.start() // issues in progress stay reserved
	w.waitFor("the agent running again", func() bool { return w.agent.count("x-a") == 2 })
	if got := w.reserved(); !slices.Equal(got, []string{".beads/issues/x-a codex"}) {
		t.Errorf("reservations %q", got)
	}
	open()
	w.waitStatus("x-a", tracker.StatusClosed)
	w.waitFor("it is released", func() bool { return len(w.reserved()) == 0 })
}

func TestReservedIssuesAreSkipped(t *testing.T) {
	w := newFixture(t)
	w.options.Project, w.options.MaxClaims = "shop", 2
	w.start()
	if err := w.bobReserves("x-a"); err != nil {
		t.Fatal(err)
	}
	w.create("x-a", "x-b")
	w.waitStatus("x-b", tracker.StatusClosed)
	w.create("x-c")
	w.waitStatus("x-c", tracker.StatusClosed)
	if it := w.issue("x-a"); it.Status != tracker.StatusOpen || it.Assignee != "" {
		t.Errorf("bob's issue is %s and assigned to %s", it.Status, it.Assignee)
	}
	if _, err := w.ledger.Projects().ReleaseNames(t.Context(), "shop", "bob", []string{".beads/issues/x-a"},
		bob()); err != nil {
		t.Fatal(err)
	}
	w.stop()
	w.start() // instead of waiting for reservationRetry
	w.waitStatus("x-a", tracker.StatusClosed)
	w.waitFor("nothing is reserved", func() bool { return len(w.reserved()) == 0 })
}

func TestARefusedReservationDoesNotStopWork(t *testing.T) {
	w := newFixture(t)
	w.options.Project = "no/project"
	w.create("x-a")
	w.start()
	w.waitStatus("x-a", tracker.StatusClosed)
	if s := w.runner.State(); s.LastError == "" {
		t.Error("no reported error")
	}
}

// TestLateIssuesAreReservedBeforeTheyAreClaimed adds an issue that bob has reserved between the
// scan and the write.
func TestLateIssuesAreReservedBeforeTheyAreClaimed(t *testing.T) {
	w := newFixture(t)
	w.options.Project = "shop"
	w.start()
	if err := w.bobReserves("x-a"); err != nil {
		t.Fatal(err)
	}
	lock := flock.New(filepath.Join(w.folder.Path(), "issues.lock"))
	if err := lock.Lock(); err != nil {
		t.Fatal(err)
	}
	const theirs = `{"id":"x-a","title":"A","status":"open","priority":0,"issue_type":"task"}` + "\n"
	const ours = `{"id":"x-b","title":"B","status":"open","priority":1,"issue_type":"task"}` + "\n"
	for _, text := range []string{ours, theirs + ours} {
		if err := os.WriteFile(w.folder.File(), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		w.waitFor("it wants to claim x-b", func() bool { return slices.Contains(w.reserved(), ".beads/issues/x-b codex") })
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	w.waitStatus("x-b", tracker.StatusClosed)
	if it := w.issue("x-a"); it.Status != tracker.StatusOpen || w.agent.count("x-a") > 0 {
		t.Errorf("bob's issue is %s", it.Status)
	}
}
