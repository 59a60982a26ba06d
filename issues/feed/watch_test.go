package feed_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/issues/feed"
	"mailroom/issues/tracker"
	"mailroom/store"
	"mailroom/thread"
)

func TestAReadyIssueRunsAndIsClosedWithTheReply(t *testing.T) {
	w := newFixture(t)
	w.create("x-wood", "x-roof")
	w.edit(func(t *tracker.Tracker) error {
		_, err := t.Update("x-roof", ann(), func(it *tracker.Issue) error {
			it.Description, it.Design, it.Acceptance, it.Notes = "It drips.", "Tiles.", "Dry.", "Ask Bob."
			it.Labels = []string{"house"}
			return nil
		})
		if err == nil {
			_, err = t.AddDependency("x-roof", "x-wood", tracker.DependencyBlocks, ann())
		}
		if err == nil {
			_, err = t.AddComment("x-roof", "red ones", ann())
		}
		return err
	})
	w.agent.setWork(func(ctx context.Context, s mailroom.Session) error {
		return s.Stream(ctx, "All dry now.\n\nIt took tiles.\n")
	})
	w.start()
	it := w.waitStatus("x-roof", tracker.StatusClosed)
	if it.CloseReason != "All dry now." || it.Assignee != "codex" || it.ClosedAt.IsZero() {
		t.Errorf("closed with %q, assigned to %s", it.CloseReason, it.Assignee)
	}
	if last := it.Comments[len(it.Comments)-1]; last.Author != "codex" || last.Text != "All dry now.\n\nIt took tiles." ||
		last.ID != 2 {
		t.Errorf("last comment %+v", last)
	}
	const want = "# Do x-roof\n\nIssue x-roof, task, priority 2, labelled house. It is claimed for you, codex. Your final reply becomes a comment and closes the issue; do not close it yourself. `bd show x-roof` shows its current state.\n" +
		"\nIt drips.\n\n## Design\n\nTiles.\n\n## Acceptance criteria\n\nDry.\n\n## Notes\n\nAsk Bob.\n" +
		"\n## Depends on\n\n- x-wood (blocks): Do x-wood, closed\n\n## Comments\n\nann, "
	if got := w.agent.input("x-roof"); !strings.HasPrefix(got, want) || !strings.HasSuffix(got, ":\n\nred ones\n") {
		t.Errorf("the agent read:\n%s", cmp.Diff(want, got))
	}
	w.waitDelivered("x-roof")
	if got := len(w.issue("x-roof").Comments); got != 2 {
		t.Errorf("%d comments after the delivery", got)
	}
	if run := w.runs("issue:x-roof")[0]; run.Metadata[feed.Label] != "x-roof" || run.SubmitKey != submitKey(it) {
		t.Errorf("run %+v", run)
	}
}

func TestOnlyMatchingIssuesAreClaimed(t *testing.T) {
	w := newFixture(t)
	w.options.Agents, w.options.Labels, w.options.MaxClaims = []string{"claude"}, []string{"auto"}, 10
	w.create("x-plain", "x-label", "x-mine", "x-theirs", "x-epic", "x-bare", "x-blocked")
	for id, change := range map[string]func(*tracker.Issue){
		"x-plain":  func(*tracker.Issue) {},
		"x-label":  func(it *tracker.Issue) { it.Labels = append(it.Labels, "agent:claude") },
		"x-mine":   func(it *tracker.Issue) { it.Assignee = "claude" },
		"x-theirs": func(it *tracker.Issue) { it.Assignee = "bob" },
		"x-epic":   func(it *tracker.Issue) { it.Type = "epic" },
	} {
		w.set(id, func(it *tracker.Issue) { it.Labels = []string{"auto"}; change(it) })
	}
	w.edit(func(t *tracker.Tracker) error {
		_, err := t.AddDependency("x-blocked", "x-bare", "", ann())
		return err
	})
	w.start()
	for id, agent := range map[string]string{"x-plain": "codex", "x-label": "claude", "x-mine": "claude"} {
		if it := w.waitStatus(id, tracker.StatusClosed); it.Assignee != agent {
			t.Errorf("%s was assigned to %s, want %s", id, it.Assignee, agent)
		}
	}
	for _, id := range []string{"x-theirs", "x-epic", "x-bare", "x-blocked"} {
		if it := w.issue(id); it.Status != tracker.StatusOpen || w.agent.count(id) > 0 || submitKey(it) != "" {
			t.Errorf("%s is %s and has %d runs", id, it.Status, w.agent.count(id))
		}
	}
}

func TestAFailedRunBlocksItsIssueAndARetryClosesIt(t *testing.T) {
	w := newFixture(t)
	w.create("x-a")
	w.agent.setWork(func(ctx context.Context, s mailroom.Session) error {
		if err := s.Stream(ctx, "I look at it."); err != nil {
			return err
		}
		if err := s.Append(ctx, mailroom.Step{}); err != nil { // commits and delivers the message
			return err
		}
		return &mailroom.Failure{Class: mailroom.ClassPermanent, Err: errors.New("no such model")}
	})
	w.start()
	w.waitStatus("x-a", tracker.StatusBlocked)
	run := w.waitRun("x-a", mailroom.StatusFailed)
	w.waitDelivered("x-a")
	it := w.issue("x-a")
	got := comments(it)
	slices.Sort(got)
	if diff := cmp.Diff([]string{"codex: I look at it.", "mailroom: codex failed in attempt 1 (permanent): no such model"},
		got); diff != "" {
		t.Error(diff)
	}
	last := it.Comments[slices.IndexFunc(it.Comments, func(c tracker.Comment) bool { return c.Author == "mailroom" })]
	if !strings.Contains(last.Text, "mailroom run retry "+run.ID) ||
		!strings.Contains(last.Text, "bd update x-a --status open") {
		t.Errorf("the comment has no instructions: %s", last.Text)
	}
	work, open := gatedWork("done after all")
	defer open()
	w.agent.setWork(work)
	if _, err := w.ledger.Retry(t.Context(), thread.Retry{Run: run.ID, By: "ann"}); err != nil {
		t.Fatal(err)
	}
	// without this, only a full scan detects the change
	w.set("x-a", func(it *tracker.Issue) { it.Notes = "looked at again" })
	w.waitStatus("x-a", tracker.StatusInProgress)
	open()
	if it := w.waitStatus("x-a", tracker.StatusClosed); it.CloseReason != "done after all" ||
		it.Notes != "looked at again" {
		t.Errorf("issue %+v", it)
	}
	w.waitDelivered("x-a")
	if runs := w.runs("issue:x-a"); len(runs) != 1 || w.agent.count("x-a") != 2 {
		t.Errorf("%d runs, %d attempts", len(runs), w.agent.count("x-a"))
	}
}

func TestARunWithoutAReplyClosesItsIssue(t *testing.T) {
	w := newFixture(t)
	w.agent.setWork(func(context.Context, mailroom.Session) error { return nil })
	w.create("x-a")
	w.start()
	if it := w.waitStatus("x-a", tracker.StatusClosed); it.CloseReason != "codex finished without a reply" ||
		len(it.Comments) > 0 {
		t.Errorf("close reason %q, comments %q", it.CloseReason, comments(it))
	}
}

func TestAQuestionBecomesACommentAndItsAnswerResumesTheRun(t *testing.T) {
	w := newFixture(t)
	w.create("x-a")
	w.agent.setWork(func(ctx context.Context, s mailroom.Session) error {
		tickets, err := s.Wait(ctx, false, mailroom.Ask{Name: "colour", Kind: mailroom.TicketInput, Prompt: "Which colour?"})
		if err != nil {
			return err
		}
		return s.Stream(ctx, "It is "+strings.Trim(string(tickets[0].Answer), `"`))
	})
	w.start()
	run := w.waitRun("x-a", mailroom.StatusWaiting)
	w.waitComment("x-a")
	it := w.issue("x-a")
	id := thread.TicketID(run.ID, "colour")
	if diff := cmp.Diff([]string{"mailroom: codex asks: Which colour?"}, comments(it)); diff != "" ||
		!strings.Contains(it.Comments[0].Text, "mailroom answer "+id) {
		t.Errorf("%s: %q", diff, comments(it))
	}
	if it.Status != tracker.StatusInProgress {
		t.Errorf("issue is %s before the answer", it.Status)
	}
	if _, err := w.ledger.Decide(t.Context(), thread.Decision{Ticket: id, Verdict: mailroom.VerdictAnswer,
		Answer: []byte(`"red"`), By: "ann"}); err != nil {
		t.Fatal(err)
	}
	if it := w.waitStatus("x-a", tracker.StatusClosed); it.CloseReason != "It is red" {
		t.Errorf("close reason %q", it.CloseReason)
	}
}

// waitComment waits until an issue has a comment.
func (w *fixture) waitComment(id string) {
	w.t.Helper()
	w.waitFor("a comment on "+id, func() bool { return len(w.issue(id).Comments) > 0 })
}

func TestFinishedIssuesCanStayOpen(t *testing.T) {
	w := newFixture(t)
	w.options.KeepOpen = true
	w.create("x-a", "x-b")
	w.start()
	for _, id := range []string{"x-a", "x-b"} { // in sequence: a finished issue no longer counts as claimed
		w.waitComment(id)
		w.waitDelivered(id)
		if it := w.issue(id); it.Status != tracker.StatusInProgress || it.Assignee != "codex" {
			t.Errorf("%s is %s", id, it.Status)
		}
	}
	w.set("x-a", func(it *tracker.Issue) { it.Status, it.Assignee = tracker.StatusOpen, "" })
	w.waitFor("a second run", func() bool { return w.agent.count("x-a") == 2 })
}

func TestAReopenedIssueRunsAgainInItsThread(t *testing.T) {
	w := newFixture(t)
	w.create("x-a")
	w.start()
	w.waitStatus("x-a", tracker.StatusClosed)
	w.waitDelivered("x-a")
	w.set("x-a", func(it *tracker.Issue) { it.Status, it.Description = tracker.StatusOpen, "Once more." })
	w.waitFor("a second run", func() bool { return w.agent.count("x-a") == 2 })
	w.waitStatus("x-a", tracker.StatusClosed)
	w.waitDelivered("x-a")
	if runs := w.runs("issue:x-a"); len(runs) != 2 || runs[0].SubmitKey == runs[1].SubmitKey ||
		!strings.Contains(w.agent.input("x-a"), "Once more.") {
		t.Errorf("%d runs in its thread", len(runs))
	}
	if got := comments(w.issue("x-a")); !slices.Equal(got, []string{"codex: done", "codex: done"}) {
		t.Errorf("comments %q", got)
	}
}

func TestAnIssueReopenedByItsAgentIsNotClaimedAgain(t *testing.T) {
	w := newFixture(t)
	w.create("x-a", "x-b")
	w.agent.setWork(func(ctx context.Context, s mailroom.Session) error {
		if s.Run().Metadata[feed.Label] == "x-a" {
			w.set("x-a", func(it *tracker.Issue) { it.Status, it.Assignee = tracker.StatusOpen, "" })
		}
		return s.Stream(ctx, "I cannot do this.")
	})
	w.start()
	w.waitStatus("x-b", tracker.StatusClosed) // claimed after x-a
	w.waitDelivered("x-a")
	w.create("x-c")
	w.waitStatus("x-c", tracker.StatusClosed)
	if it := w.issue("x-a"); it.Status != tracker.StatusOpen || w.agent.count("x-a") != 1 || len(it.Comments) != 1 {
		t.Errorf("issue is %s after %d attempts, comments %q", it.Status, w.agent.count("x-a"), comments(it))
	}
	// A later message of the agent is not a change of the issue either.
	w.agent.setWork(func(ctx context.Context, s mailroom.Session) error { return s.Stream(ctx, "Really not.") })
	if _, err := w.ledger.Submit(t.Context(), thread.Submit{Thread: "issue:x-a",
		Messages: []thread.NewMessage{{Parts: mailroom.Text("No?")}}, Sender: "ann"}); err != nil {
		t.Fatal(err)
	}
	w.waitFor("the comment", func() bool { return len(w.issue("x-a").Comments) == 2 })
	w.create("x-d")
	w.waitStatus("x-d", tracker.StatusClosed)
	if n := w.agent.count("x-a"); n != 2 {
		t.Errorf("%d attempts", n)
	}
	w.agent.setWork(nil)
	w.set("x-a", func(it *tracker.Issue) { it.Notes = "now it can be done" })
	w.waitStatus("x-a", tracker.StatusClosed)
}

func TestChangesByAPersonDuringARunAreKept(t *testing.T) {
	w := newFixture(t)
	w.options.MaxClaims = 4
	w.create("x-closed", "x-taken", "x-deleted", "x-open")
	work, open := gatedWork("here it is")
	defer open()
	w.agent.setWork(work)
	w.start()
	for _, id := range []string{"x-closed", "x-taken", "x-deleted", "x-open"} {
		w.waitFor("the agent running for "+id, func() bool { return w.agent.count(id) == 1 })
	}
	w.edit(func(t *tracker.Tracker) error {
		_, err := t.Close("x-closed", "not needed", ann())
		if err == nil {
			_, err = t.Delete([]string{"x-deleted"}, "", false, false, ann())
		}
		return err
	})
	w.set("x-taken", func(it *tracker.Issue) { it.Assignee = "bob" })
	open()
	w.waitStatus("x-open", tracker.StatusClosed)
	for _, id := range []string{"x-closed", "x-taken", "x-deleted"} {
		w.waitRun(id, mailroom.StatusCompleted)
		w.waitDelivered(id)
	}
	w.waitFor("comments on the existing issues", func() bool {
		return len(w.issue("x-closed").Comments) == 1 && len(w.issue("x-taken").Comments) == 1
	})
	if it := w.issue("x-closed"); it.CloseReason != "not needed" {
		t.Errorf("close reason is now %q", it.CloseReason)
	}
	if it := w.issue("x-taken"); it.Assignee != "bob" || it.Status != tracker.StatusInProgress {
		t.Errorf("issue is now %s and assigned to %s", it.Status, it.Assignee)
	}
	if it := w.issue("x-deleted"); it.Status != tracker.StatusTombstone || len(it.Comments) > 0 {
		t.Errorf("deleted issue is %s, comments %q", it.Status, comments(it))
	}
	if got := w.countEntries("out:issue:x-deleted", feed.KindUnsent); got != 1 {
		t.Errorf("%d entries about the missing issue", got)
	}
}

// countEntries counts the entries of one kind in a thread.
func (w *fixture) countEntries(thread, kind string) int {
	w.t.Helper()
	var found []mailroom.Entry
	err := w.store.View(w.t.Context(), func(r store.Reader) (err error) {
		found, err = r.Entries(store.EntryQuery{Thread: thread, Kinds: []string{kind}})
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return len(found)
}

func TestAnIssueReopenedDuringItsRunIsNotClaimedTwice(t *testing.T) {
	w := newFixture(t)
	w.create("x-a")
	work, open := gatedWork("here it is")
	defer open()
	w.agent.setWork(work)
	w.start()
	w.waitFor("the agent running", func() bool { return w.agent.count("x-a") == 1 })
	w.agent.setWork(nil)
	w.set("x-a", func(it *tracker.Issue) { it.Status, it.Assignee = tracker.StatusOpen, "" })
	w.create("x-b")
	w.waitStatus("x-b", tracker.StatusClosed) // although x-a is older
	if runs := w.runs("issue:x-a"); len(runs) != 1 {
		t.Errorf("%d runs in its thread", len(runs))
	}
	open()
	w.waitComment("x-a")
	w.waitDelivered("x-a")
	if it := w.issue("x-a"); it.Status != tracker.StatusOpen || it.Assignee != "" {
		t.Errorf("issue is %s and assigned to %s", it.Status, it.Assignee)
	}
}

func TestAnIssueTakenBackBeforeItsRunStartsIsCancelled(t *testing.T) {
	w := newFixture(t)
	w.options.MaxClaims, w.limit = 5, 1
	w.create("x-a", "x-b", "x-c", "x-d", "x-e")
	work, open := gatedWork("done")
	defer open()
	w.agent.setWork(work)
	w.start()
	w.waitFor("an agent running", func() bool { return w.agent.count("x-a") == 1 })
	for _, id := range []string{"x-b", "x-c", "x-d", "x-e"} {
		w.waitRun(id, mailroom.StatusQueued)
	}
	w.edit(func(t *tracker.Tracker) error {
		_, err := t.Close("x-b", "not needed", ann())
		if err == nil {
			_, err = t.Delete([]string{"x-e"}, "", false, false, ann())
		}
		return err
	})
	w.set("x-c", func(it *tracker.Issue) { it.Assignee = "bob" })
	for _, id := range []string{"x-b", "x-c", "x-e"} {
		if run := w.waitRun(id, mailroom.StatusCancelled); run.StopBy != "" && run.StopBy != "channel:issue" {
			t.Errorf("run was cancelled by %s", run.StopBy)
		}
	}
	w.set("x-d", func(it *tracker.Issue) { it.Status, it.Description = tracker.StatusOpen, "Blue, please." })
	w.waitFor("a run with the changed issue", func() bool {
		runs := w.runs("issue:x-d")
		return len(runs) == 2 && runs[1].Status == mailroom.StatusCancelled && runs[0].Status == mailroom.StatusQueued
	})
	open()
	w.waitStatus("x-d", tracker.StatusClosed)
	if got := w.agent.input("x-d"); !strings.Contains(got, "Blue, please.") || w.agent.count("x-d") != 1 {
		t.Errorf("%d attempts, last input %q", w.agent.count("x-d"), got)
	}
	for _, id := range []string{"x-b", "x-c", "x-e"} {
		w.waitDelivered(id)
		if it := w.issue(id); w.agent.count(id) > 0 || len(it.Comments) > 0 {
			t.Errorf("%s: %d attempts, comments %q", id, w.agent.count(id), comments(it))
		}
	}
}

// submitKey returns the key of an issue's latest submit.
func submitKey(it *tracker.Issue) string {
	_, key := feed.LastSubmit("issue", it)
	return key
}

func TestAnIssueRenamedDuringItsRunIsClosed(t *testing.T) {
	w := newFixture(t)
	w.create("x-a")
	work, open := gatedWork("done")
	defer open()
	w.agent.setWork(work)
	w.start()
	w.waitFor("the agent running", func() bool { return w.agent.count("x-a") == 1 })
	w.edit(func(t *tracker.Tracker) error { _, err := t.Rename("x", "y", ann()); return err })
	open()
	w.waitStatus("y-a", tracker.StatusClosed)
	w.waitDelivered("x-a")
	if got := comments(w.issue("y-a")); !slices.Equal(got, []string{"codex: done"}) || w.agent.count("x-a") != 1 ||
		w.agent.count("y-a") > 0 {
		t.Errorf("comments %q, %d and %d attempts", got, w.agent.count("x-a"), w.agent.count("y-a"))
	}
}

func TestRepliesInAnIssuesThreadBecomeComments(t *testing.T) {
	w := newFixture(t)
	w.create("x-a")
	w.start()
	w.waitStatus("x-a", tracker.StatusClosed)
	w.waitDelivered("x-a")
	w.agent.setWork(func(ctx context.Context, s mailroom.Session) error { return s.Stream(ctx, "They are red.") })
	if _, err := w.ledger.Submit(t.Context(), thread.Submit{Thread: "issue:x-a",
		Messages: []thread.NewMessage{{Parts: mailroom.Text("Which colour?")}}, Sender: "ann"}); err != nil {
		t.Fatal(err)
	}
	w.waitFor("it is a comment", func() bool { return len(w.issue("x-a").Comments) == 2 })
	w.waitDelivered("x-a")
	if it := w.issue("x-a"); it.Status != tracker.StatusClosed || it.CloseReason != "done" ||
		comments(it)[1] != "codex: They are red." {
		t.Errorf("issue is %s, close reason %q, comments %q", it.Status, it.CloseReason, comments(it))
	}
}
