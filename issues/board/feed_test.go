package board_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mailroom"
	"mailroom/issues/board"
	"mailroom/issues/board/boardtest"
)

// fixture is a server with the fake board.
type fixture struct{ *boardtest.Server }

func newFixture(t *testing.T, f *fakeBoard) fixture { return fixture{boardtest.New(t, f)} }

// waitState waits until an issue has a state and nothing of it is left to deliver.
func (w fixture) waitState(f *fakeBoard, id string, state board.State) {
	w.WaitFor(fmt.Sprintf("%s is %s", id, state), func() bool { return f.issue(id).State == state && w.Settled(id) })
}

func numbers(n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprint(i+1))
	}
	return ids
}

func TestAReadyIssueIsRunCommentedAndClosed(t *testing.T) {
	f := newFakeBoard()
	f.add("1", "2", "3", "4", "5")
	f.edit("2", func(it *board.Issue) { it.Labels = nil })
	f.edit("3", func(it *board.Issue) { it.Assignees = []string{"ann"} })
	f.edit("4", func(it *board.Issue) { it.Blocked = []string{"r#2"} })
	f.edit("5", func(it *board.Issue) { it.Assignees = []string{"Mailroom-Bot"} })
	w := newFixture(t, f)
	w.Start()
	w.waitState(f, "1", board.StateClosed)
	w.waitState(f, "5", board.StateClosed)
	for id, want := range map[string]int{"1": 1, "2": 0, "3": 0, "4": 0, "5": 1} {
		if got := f.texts(id); w.Agent.Count(id) != want || len(got) != want || want > 0 && got[0] != "done" {
			t.Errorf("%s: %d attempts, comments %q", id, w.Agent.Count(id), got)
		}
	}
	if got := w.Agent.Input("1"); !strings.Contains(got, "# Do 1") || !strings.Contains(got, "It is broken.") {
		t.Errorf("the agent got %q", got)
	}
	f.edit("4", func(it *board.Issue) { it.Blocked = nil })
	w.waitState(f, "4", board.StateClosed)
}

// TestARestartAtAnyCallResumes kills the server at each call of the board, before and after the board carries it out.
func TestARestartAtAnyCallResumes(t *testing.T) {
	for n, ended := 1, false; !ended; n++ {
		for _, lost := range []bool{false, true} {
			f := newFakeBoard()
			f.add("1")
			w := newFixture(t, f)
			killed := make(chan struct{})
			f.before = func(_ string, call int) error {
				if call != n {
					return nil
				}
				close(killed)
				f.dead = true
				if lost { // this call arrives, and its answer does not
					f.dead = false
					f.lost = func(string) bool { f.dead = true; return true }
					return nil
				}
				return unavailable("killed")
			}
			w.Start()
			w.WaitFor("the kill or the end", func() bool {
				select {
				case <-killed:
					return true
				default:
					return f.issue("1").State == board.StateClosed && w.Settled("1")
				}
			})
			w.Stop()
			f.mu.Lock()
			ended = f.calls < n || ended
			f.before, f.lost, f.dead = nil, nil, false
			f.mu.Unlock()
			w.Start()
			w.waitState(f, "1", board.StateClosed)
			if got := f.texts("1"); !slices.Equal(got, []string{"done"}) || len(w.Runs(board.Thread("roof", "1"))) != 1 {
				t.Errorf("killed at call %d, lost %t: comments %q, %d runs", n, lost, got, len(w.Runs(board.Thread("roof", "1"))))
			}
			w.Stop()
		}
		if n > 100 {
			t.Fatal("too many calls")
		}
	}
}

// TestEachIssueIsDoneOnceOnAnUnreliableBoard loses answers of writes that were carried out, refuses calls, and polls
// the board with two servers on one store.
func TestEachIssueIsDoneOnceOnAnUnreliableBoard(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0)) // owned by the mutex of the board
	f := newFakeBoard()
	const n = 12
	f.add(numbers(n)...)
	var lost, refused int
	f.lost = func(string) bool {
		if rnd.IntN(3) > 0 {
			return false
		}
		lost++
		return true
	}
	f.before = func(string, int) error {
		if rnd.IntN(10) > 0 {
			return nil
		}
		refused++
		return unavailable("busy")
	}
	first := newFixture(t, f)
	first.WithSQLite()
	first.Options.MaxClaims = 5
	second := newFixture(t, f)
	if err := second.Store.Close(); err != nil {
		t.Fatal(err)
	}
	second.Store, second.Options, second.Agent = first.Store, first.Options, first.Agent
	t.Cleanup(func() { second.Store = boardtest.NoStore{} })
	first.Start()
	second.Start()
	for _, id := range f.ids() {
		first.waitState(f, id, board.StateClosed)
		if got := f.texts(id); !slices.Equal(got, []string{"done"}) || first.Agent.Count(id) != 1 {
			t.Errorf("%s: %d attempts, comments %q", id, first.Agent.Count(id), got)
		}
	}
	f.mu.Lock() // both go on polling
	defer f.mu.Unlock()
	t.Logf("%d issues, %d lost answers, %d refused calls, two pollers", n, lost, refused)
	if lost == 0 || refused == 0 {
		t.Error("no fault was tried")
	}
}

// TestAnIssueThatCannotBeReadStopsNoOther has one broken issue that waits, one that breaks after its run was submitted,
// and a board that cannot be read at all.
func TestAnIssueThatCannotBeReadStopsNoOther(t *testing.T) {
	f := newFakeBoard()
	f.add("1", "2", "3")
	f.unread = map[string]bool{"1": true}
	w := newFixture(t, f)
	w.Start()
	w.waitState(f, "2", board.StateClosed)
	w.waitState(f, "3", board.StateClosed)
	s := w.Runner.State()
	if w.Agent.Count("1") > 0 || !strings.Contains(s.LastError, "issue r#1 waits") || s.Reconnects > 0 {
		t.Errorf("%d attempts, %+v", w.Agent.Count("1"), s)
	}
	work, finish := boardtest.GatedWork("done")
	defer finish()
	w.Agent.SetWork(work)
	f.add("4")
	w.WaitRun("4", mailroom.StatusRunning)
	w.WaitFor("the mark", func() bool { return f.issue("4").State == board.StateWorking })
	f.mu.Lock()
	f.unread = map[string]bool{"4": true}
	f.mu.Unlock()
	f.edit("4", func(it *board.Issue) { it.Body = "More." })
	w.WaitFor("the report", func() bool { return strings.Contains(w.Runner.State().LastError, "issue r#4 waits") })
	f.mu.Lock()
	f.unread = nil
	f.mu.Unlock()
	finish()
	for _, id := range []string{"1", "4"} {
		w.waitState(f, id, board.StateClosed)
	}
	f.add("5", "6", "7", "8")
	f.mu.Lock()
	f.unread = map[string]bool{"5": true, "6": true, "7": true, "8": true}
	f.mu.Unlock()
	w.WaitFor("the outage", func() bool { return w.Runner.State().Attempts > 0 || w.Runner.State().Reconnects > 0 })
}

// TestAnIssueThatCouldNotBeReadOnceIsReadAgainSoon has one failed call, and a Recheck that never comes.
func TestAnIssueThatCouldNotBeReadOnceIsReadAgainSoon(t *testing.T) {
	f := newFakeBoard()
	f.add("1")
	failed := false
	f.before = func(op string, _ int) error {
		if op != "issue" || failed {
			return nil
		}
		failed = true
		return unavailable("502")
	}
	w := newFixture(t, f)
	w.Options.Recheck = time.Hour
	w.Start()
	w.waitState(f, "1", board.StateClosed)
	if !failed {
		t.Error("no call failed")
	}
}

// TestAnIssueWhoseRunWasCancelledIsNotSubmittedAgainUnchanged cancels a run before its start, which leaves the issue
// open and without a mark. An edit of the issue submits it again.
func TestAnIssueWhoseRunWasCancelledIsNotSubmittedAgainUnchanged(t *testing.T) {
	f := newFakeBoard()
	f.add("1", "2")
	w := newFixture(t, f)
	w.Limit, w.Options.MaxClaims = 1, 2
	work, open := boardtest.GatedWork("done")
	defer open()
	w.Agent.SetWork(work)
	w.Start()
	w.WaitRun("1", mailroom.StatusRunning)
	w.WaitFor("the mark", func() bool { return f.issue("2").State == board.StateWorking })
	if _, err := w.Ledger.Cancel(t.Context(), w.WaitRun("2", mailroom.StatusQueued).ID, "ann"); err != nil {
		t.Fatal(err)
	}
	w.WaitFor("the end of the mark", func() bool { return f.issue("2").State == board.StateOpen && w.Settled("2") })
	for range 3 {
		polled := w.Runner.State().LastSuccess
		w.WaitFor("another poll", func() bool { return w.Runner.State().LastSuccess.After(polled) })
	}
	if n := len(w.Runs(board.Thread("roof", "2"))); n != 1 {
		t.Errorf("%d runs", n)
	}
	f.edit("2", func(it *board.Issue) { it.Body = "More." })
	open()
	w.waitState(f, "2", board.StateClosed)
}

func TestARunIsCancelledBeforeItsStartOnly(t *testing.T) {
	for name, take := range map[string]func(f *fakeBoard, id string){
		"closed":     func(f *fakeBoard, id string) { f.edit(id, func(it *board.Issue) { it.State = board.StateClosed }) },
		"reassigned": func(f *fakeBoard, id string) { f.edit(id, func(it *board.Issue) { it.Assignees = []string{"ann"} }) },
		"unlabelled": func(f *fakeBoard, id string) { f.edit(id, func(it *board.Issue) { it.Labels = nil }) },
		"deleted":    func(f *fakeBoard, id string) { f.remove(id) },
		"replaced":   func(f *fakeBoard, id string) { f.edit(id, func(it *board.Issue) { it.Native = "other" }) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeBoard()
			f.add("1", "2")
			w := newFixture(t, f)
			w.Limit, w.Options.MaxClaims = 1, 2
			work, open := boardtest.GatedWork("done")
			defer open()
			w.Agent.SetWork(work)
			w.Start()
			w.WaitRun("1", mailroom.StatusRunning)
			w.WaitRun("2", mailroom.StatusQueued)
			take(f, "1")
			take(f, "2")
			w.WaitRun("2", mailroom.StatusCancelled)
			open()
			w.WaitRun("1", mailroom.StatusCompleted)
			w.WaitFor("the deliveries", func() bool { return w.Settled("1") && w.Settled("2") })
			want := 1
			if name == "deleted" || name == "replaced" {
				want = 0
			}
			if got := f.texts("1"); len(got) != want || len(f.texts("2")) > 0 {
				t.Errorf("comments %q and %q", got, f.texts("2"))
			}
			if name == "reassigned" || name == "unlabelled" { // no mark of ours stays at the issue of another person
				w.waitState(f, "1", board.StateOpen)
			}
		})
	}
}

func TestAnEditDuringARunIsToldOnce(t *testing.T) {
	f := newFakeBoard()
	f.add("1")
	w := newFixture(t, f)
	var told atomic.Int32
	work, open := boardtest.GatedWork("done")
	defer open()
	w.Agent.SetWork(func(ctx context.Context, s mailroom.Session) error {
		if err := work(ctx, s); err != nil {
			return err
		}
		steered, err := s.Steered(ctx)
		told.Store(int32(len(steered)))
		if len(steered) != 1 || !strings.Contains(steered[0].Text, "It burns.") {
			t.Errorf("the agent was told %+v", steered)
		}
		return err
	})
	w.Start()
	w.WaitRun("1", mailroom.StatusRunning)
	w.WaitFor("the mark", func() bool { return f.issue("1").State == board.StateWorking })
	f.edit("1", func(it *board.Issue) { it.Body = "It burns." })
	w.WaitFor("the note", func() bool { return len(w.Runs(board.Thread("roof", "1"))[0].Steers) == 1 })
	f.edit("1", func(it *board.Issue) { it.Labels = append(it.Labels, "hot") }) // nothing new for the agent
	polled := w.Runner.State().LastSuccess
	w.WaitFor("another poll", func() bool { return w.Runner.State().LastSuccess.After(polled) })
	open()
	w.waitState(f, "1", board.StateClosed)
	if told.Load() != 1 || len(w.Runs(board.Thread("roof", "1"))) != 1 {
		t.Errorf("told %d times, %d runs", told.Load(), len(w.Runs(board.Thread("roof", "1"))))
	}
}

func TestAReopenedIssueRunsAgainInItsThread(t *testing.T) {
	f := newFakeBoard()
	f.add("1")
	w := newFixture(t, f)
	w.Start()
	for n := range 3 {
		w.waitState(f, "1", board.StateClosed)
		w.WaitFor("the run", func() bool { return w.Agent.Count("1") == n+1 })
		f.edit("1", func(it *board.Issue) { it.State = board.StateOpen })
	}
	w.WaitFor("the fourth run", func() bool { return w.Agent.Count("1") == 4 })
	w.waitState(f, "1", board.StateClosed)
	if got := f.texts("1"); len(got) != 4 {
		t.Errorf("comments %q", got)
	}
}

func TestAnIssueThatStaysOpenDoesNotRunAgain(t *testing.T) {
	f := newFakeBoard()
	f.add("1", "2")
	w := newFixture(t, f)
	w.Options.KeepOpen = true
	w.Start()
	w.waitState(f, "1", board.StateDone)
	f.edit("1", func(it *board.Issue) { it.Title = "More" })
	w.waitState(f, "2", board.StateDone)
	polled := w.Runner.State().LastSuccess
	w.WaitFor("another poll", func() bool { return w.Runner.State().LastSuccess.After(polled) })
	if w.Agent.Count("1") != 1 {
		t.Errorf("%d attempts", w.Agent.Count("1"))
	}
}

func TestAFailedIssueWaitsForAPerson(t *testing.T) {
	f := newFakeBoard()
	f.add("1", "2")
	w := newFixture(t, f)
	broken := errors.New("the compiler is missing")
	w.Agent.SetWork(func(context.Context, mailroom.Session) error {
		return &mailroom.Failure{Class: mailroom.ClassPermanent, Err: broken}
	})
	w.Start()
	for _, id := range []string{"1", "2"} {
		w.waitState(f, id, board.StateBlocked)
		if got := f.texts(id); len(got) != 1 || !strings.Contains(got[0], broken.Error()) ||
			!strings.Contains(got[0], "mailroom run retry") {
			t.Errorf("%s: comments %q", id, got)
		}
	}
	w.Agent.SetWork(nil)
	w.Retry(w.WaitRun("1", mailroom.StatusFailed).ID)
	f.edit("2", func(it *board.Issue) { it.State = board.StateOpen }) // a person removes the mark
	for _, id := range []string{"1", "2"} {
		w.waitState(f, id, board.StateClosed)
		if got := f.texts(id); len(got) != 2 || got[1] != "done" {
			t.Errorf("%s: comments %q", id, got)
		}
	}
	if one, two := len(w.Runs(board.Thread("roof", "1"))), len(w.Runs(board.Thread("roof", "2"))); one != 1 || two != 2 {
		t.Errorf("%d and %d runs", one, two)
	}
}

// TestAnIssueWhoseThreadWasDeletedRunsOnceMore deletes the thread of an issue that was done. Its delivery thread stays,
// and a person opens the issue again.
func TestAnIssueWhoseThreadWasDeletedRunsOnceMore(t *testing.T) {
	f := newFakeBoard()
	f.add("1")
	w := newFixture(t, f)
	w.Start()
	w.waitState(f, "1", board.StateClosed)
	if err := w.Ledger.DeleteThread(t.Context(), board.Thread("roof", "1"), nil); err != nil {
		t.Fatal(err)
	}
	f.edit("1", func(it *board.Issue) { it.State = board.StateOpen })
	w.WaitFor("the run", func() bool { return w.Agent.Count("1") > 1 })
	w.waitState(f, "1", board.StateClosed)
	if got := f.texts("1"); w.Agent.Count("1") != 2 || len(got) != 2 {
		t.Errorf("%d attempts, comments %q", w.Agent.Count("1"), got)
	}
}

// crowdedBoard lists as many issues of others as a feed keeps before its own.
type crowdedBoard struct{ *fakeBoard }

func (f crowdedBoard) Changes(ctx context.Context, cursor string) (page board.Changes, err error) {
	if cursor != "" {
		return f.fakeBoard.Changes(ctx, cursor)
	}
	for n := range board.MaxKnown {
		page.Issues = append(page.Issues, board.Issue{ID: fmt.Sprint("other-", n), State: board.StateOpen})
	}
	page.Next, page.More = "0", true
	return page, nil
}

func TestIssuesOfOthersTakeNoRoom(t *testing.T) {
	f := newFakeBoard()
	f.add("1")
	w := fixture{boardtest.New(t, crowdedBoard{f})}
	w.Start()
	w.WaitFor("the issue", func() bool {
		return f.issue("1").State == board.StateClosed || w.Runner.State().LastError != ""
	})
	if s := w.Runner.State(); s.LastError != "" {
		t.Error(s.LastError)
	}
}
