package board

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/issues/feed"
	"mailroom/store"
)

// work follows the claims, and submits issues that are ready while there is room.
func (r *receiver) work(ctx context.Context) error {
	r.forget()
	runs, err := r.runs(ctx)
	if err != nil {
		return err
	}
	busy := 0
	r.failed = 0
	for _, id := range slices.Sorted(maps.Keys(r.pos.Claims)) {
		run := runs[id]
		if err := r.follow(ctx, id, r.pos.Claims[id], run); err != nil && !errors.Is(err, errUnread) {
			return err
		}
		if run != nil && !run.Status.Finished() {
			busy++
		}
	}
	return r.dispatch(ctx, busy)
}

// runs returns the runs of the claims by issue. A run whose thread was deleted is missing.
func (r *receiver) runs(ctx context.Context) (map[string]*mailroom.Run, error) {
	runs, issues := map[string]*mailroom.Run{}, slices.Sorted(maps.Keys(r.pos.Claims))
	const batch = 200
	for some := range slices.Chunk(issues, batch) {
		if err := r.host.View(ctx, func(rd store.Reader) error { return r.runsOf(rd, some, runs) }); err != nil {
			return nil, err
		}
	}
	return runs, nil
}

func (r *receiver) runsOf(rd store.Reader, issues []string, runs map[string]*mailroom.Run) error {
	of, ids := map[string]string{}, []string{}
	for _, id := range issues {
		key := r.pos.Claims[id].Key
		if r.runIDs[key] == "" {
			known, err := rd.Keys(store.KeyQuery{Thread: Thread(r.host.Name(), id), Keys: []string{key}})
			if err != nil {
				return err
			}
			if len(known) == 0 {
				continue
			}
			r.runIDs[key] = known[0].Result.Run
		}
		of[r.runIDs[key]] = id
		ids = append(ids, r.runIDs[key])
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := rd.Runs(store.RunQuery{IDs: ids})
	for _, run := range rows {
		runs[of[run.ID]] = run
	}
	return err
}

// follow makes the board show the state of a claim, cancels a run that has not started and whose issue was taken back,
// and notifies the agent of an edit.
func (r *receiver) follow(ctx context.Context, id string, c claim, run *mailroom.Run) error {
	switch {
	case run == nil: // its thread was deleted
		return r.drop(ctx, id)
	case run.Status.Finished() && c.Ended != attempt(run):
		return r.end(ctx, id, c, run)
	case run.Status.Finished():
		if s := r.known[id]; len(r.pos.Claims) > maxFollowed || s != nil && s.State == StateClosed {
			return r.drop(ctx, id)
		}
		return nil
	}
	if err := r.mark(ctx, id, c, MarkWorking, "", channel.Cursor{}); err != nil {
		return err
	}
	if run.NeverStarted() {
		return r.cancelUnwanted(ctx, id, c, run)
	}
	return r.noteEdit(ctx, id, c, run)
}

// attempt numbers the ends of a run, from 1 on.
func attempt(run *mailroom.Run) int { return run.Attempt + 1 }

func (r *receiver) drop(ctx context.Context, id string) error {
	key := r.pos.Claims[id].Key
	next, cursor, err := r.pos.without(id)
	if err != nil {
		return err
	}
	if err := r.host.MoveCursor(ctx, cursor); err != nil {
		return err
	}
	r.pos = next
	delete(r.runIDs, key) // another run may get this key
	return nil
}

// forget drops what is known of claims that are followed no more, and the issues that were known only for a claim.
func (r *receiver) forget() {
	followed := map[string]bool{}
	for _, c := range r.pos.Claims {
		followed[c.Key] = true
	}
	other := func(key, _ string) bool { return !followed[key] }
	maps.DeleteFunc(r.runIDs, other)
	maps.DeleteFunc(r.marked, other)
	maps.DeleteFunc(r.known, func(id string, s *seen) bool { return r.pos.Claims[id].Key == "" && !r.keeps(s.Issue) })
}

// keeps reports whether the feed remembers an issue without a claim.
func (r *receiver) keeps(it Issue) bool { return it.State != StateClosed && r.accepts(it) }

// Labels of the delivery that marks an issue, and of the run of an issue.
const (
	labelMark    = "board_mark"
	labelKey     = "board_key"
	labelRun     = "board_run"
	labelNative  = "board_native"
	labelComment = "board_comment" // set if the text of the delivery is a comment
	// labelIssue is the metadata key of a run with the name of its issue.
	labelIssue = "issue"
)

// mark submits the delivery that marks an issue and writes text as a comment, after the deliveries that wait. Its key
// names the run, the end and the mark, so a repeat is the same delivery. The key of the claim would not do: it comes
// again after the thread of the issue was deleted, whose delivery thread stays.
func (r *receiver) mark(ctx context.Context, id string, c claim, m Mark, text string, move channel.Cursor) error {
	key := fmt.Sprintf("%s:%d:%s", r.runIDs[c.Key], c.Ended, m)
	if r.marked[c.Key] == key && move.Position == nil {
		return nil
	}
	a := channel.Answer{Room: []string{id}, Key: key, Text: text, Later: true, Cursor: &move, Metadata: map[string]string{
		labelMark: string(m), labelKey: c.Key, labelRun: r.runIDs[c.Key], labelNative: c.Native,
	}}
	if text != "" {
		a.Metadata[labelComment] = "true"
	} else {
		a.Text = "Mark the issue: " + string(m)
	}
	if err := r.host.Answer(ctx, a); err != nil {
		return err
	}
	r.marked[c.Key] = key
	return nil
}

// end records the end of a claim's run. The claim of a run that did not complete is kept, because a person may retry
// the run.
func (r *receiver) end(ctx context.Context, id string, c claim, run *mailroom.Run) error {
	m, text := MarkBlocked, ""
	switch {
	case run.Status == mailroom.StatusCompleted:
		branches, err := feed.BranchTexts(ctx, r.host, run)
		if err != nil {
			return err
		}
		m, text = MarkClosed, branches[run.ID]
		if r.options.KeepOpen {
			m = MarkDone
		}
	case run.StartedAt.IsZero():
		m = MarkNone
	default:
		text = failureText(r.options.Command, run)
	}
	c.Ended = attempt(run)
	next, cursor, err := r.pos.with(id, c)
	if m != MarkBlocked {
		next, cursor, err = r.pos.without(id)
	}
	if err != nil {
		return err
	}
	if err := r.mark(ctx, id, c, m, text, cursor); err != nil {
		return err
	}
	r.pos = next
	return nil
}

// cancelUnwanted cancels a run that has not started if its issue is not for this feed any more.
func (r *receiver) cancelUnwanted(ctx context.Context, id string, c claim, run *mailroom.Run) error {
	s := r.known[id]
	if r.waits(s) || s != nil && time.Since(s.read) < r.options.Recheck && s.State != StateClosed && r.accepts(s.Issue) {
		return nil
	}
	it, _, gone, err := r.reread(ctx, id, c.Native)
	if err != nil || !gone && it.State != StateClosed && r.accepts(it) {
		return err
	}
	r.host.Log().Info("issue taken back before its run started; cancelling", "issue", id, "run", run.ID,
		"gone", gone, "state", it.State)
	if err := r.host.Cancel(ctx, run.ID); err != nil && mailroom.CodeOf(err) != mailroom.CodeConflict {
		return err
	}
	return nil
}

// noteEdit notifies the agent once of each edit of its issue.
func (r *receiver) noteEdit(ctx context.Context, id string, c claim, run *mailroom.Run) error {
	s := r.known[id]
	if s == nil || s.content == c.Told || s.refused == s.content || r.waits(s) {
		return nil
	}
	it, s, gone, err := r.reread(ctx, id, c.Native)
	if err != nil || gone || s.content == c.Told {
		return err
	}
	c.Told = s.content
	next, cursor, err := r.pos.with(id, c)
	if err != nil {
		return err
	}
	_, err = r.host.Submit(ctx, channel.Inbound{
		Chat: []string{id}, Key: c.Key + "~" + it.UpdatedAt.UTC().Format(time.RFC3339Nano), Sender: r.options.Kind,
		Parts: mailroom.Text(editText(it)), Agent: run.Agent, Mode: mailroom.ModeSteer, ExpectRun: run.ID, Cursor: cursor,
	})
	switch mailroom.CodeOf(err) {
	case "":
		r.pos = next
	case mailroom.CodeConflict, mailroom.CodeInvalid, mailroom.CodeTooLarge, mailroom.CodeNotFound:
		s.refused = s.content // the run does not work just now, or has ended
		r.host.Log().Info("edit of an issue not told to its run", "issue", id, "run", run.ID, "reason", err)
	default:
		return err
	}
	return nil
}

// dispatch submits ready issues, the most urgent first, while fewer than MaxClaims are in progress.
func (r *receiver) dispatch(ctx context.Context, busy int) error {
	for _, s := range r.candidates(StateWorking) { // claimed by another server, or by one that lost its position
		adopted, err := r.adoptOwn(ctx, s)
		if err != nil {
			return err
		}
		if adopted {
			busy++
		}
	}
	fault := r.loadWorkflow()
	waiting := 0
	for _, s := range r.candidates(StateOpen) {
		if fault != nil || busy >= r.options.MaxClaims {
			waiting++
			continue
		}
		claimed, err := r.claim(ctx, s)
		if err != nil && !errors.Is(err, errUnread) {
			return err
		}
		if claimed {
			busy++
		}
	}
	p := channel.Progress{Cursor: fmt.Sprintf("%d ready", waiting), Unacked: busy}
	if r.options.Place != "" {
		p.Cursor = r.options.Place + ": " + p.Cursor
	}
	if limits := r.board.Status(); limits != "" {
		p.Cursor += ", " + limits
	}
	switch {
	case waiting > 0 && fault != nil:
		p.Blocked = fmt.Sprintf("%d issues wait: %v", waiting, fault)
	case waiting > 0:
		p.Blocked = fmt.Sprintf("max_claimed %d reached; %d more issues are ready", r.options.MaxClaims, waiting)
	}
	r.host.ReportProgress(p)
	return nil
}

// candidates returns the issues in a state that the feed may claim or follow, as far as the list says. What was not
// ready is read again after a while.
func (r *receiver) candidates(state State) (found []*seen) {
	for id, s := range r.known {
		claimed, running := r.pos.Claims[id]
		if s.State == state && r.accepts(s.Issue) && (!running || claimed.Ended > 0) && s.refused != s.content &&
			!r.waits(s) && (!s.skipped || time.Since(s.read) >= r.options.Recheck) {
			found = append(found, s)
		}
	}
	slices.SortFunc(found, func(a, b *seen) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return found
}

// history is what the ledger knows of an issue.
type history struct {
	generation int           // of the last submit; 0: none
	run        *mailroom.Run // of that generation; nil: none, or deleted
	mark       markNote      // the last mark that was written
}

// submitKey returns the key of a generation of an issue. The first submit has generation 1, and an issue that is
// reopened gets the next one.
func submitKey(id string, generation int) string { return id + "@" + strconv.Itoa(generation) }

// history reads what the ledger knows of an issue. Its cost grows with the number of times that the issue was
// reopened, not with the other issues.
func (r *receiver) history(ctx context.Context, id string) (h history, err error) {
	thread := Thread(r.host.Name(), id)
	err = r.host.View(ctx, func(rd store.Reader) error {
		const batch = 16
		for {
			var keys []string
			for n := range batch {
				keys = append(keys, submitKey(id, h.generation+n+1))
			}
			found, err := rd.Keys(store.KeyQuery{Thread: thread, Keys: keys})
			if err != nil {
				return err
			}
			h.generation += len(found)
			if len(found) > 0 {
				rows, err := rd.Runs(store.RunQuery{IDs: []string{found[len(found)-1].Result.Run}})
				if err != nil {
					return err
				}
				h.run = nil
				if len(rows) > 0 {
					h.run = rows[0]
				}
			}
			if len(found) < batch {
				break
			}
		}
		h.mark, err = lastMark(rd, thread)
		return err
	})
	return h, err
}

// mayStart reports whether an issue that is open may be submitted again: its last run has ended, the board shows that,
// and the issue shows something else since. Otherwise an agent that leaves its issue open would get it again forever.
func (h history) mayStart(it Issue) bool {
	if h.generation == 0 {
		return true
	}
	if h.run != nil && !h.run.Status.Finished() || !h.isShown(it.ID) {
		return false
	}
	return !it.UpdatedAt.Before(h.mark.UpdatedAt) && shown(it) != h.mark.Shown
}

// unfollowed reports whether the last run of an issue goes on, or has ended and the board does not show that.
func (h history) unfollowed(id string) bool {
	return h.run != nil && (!h.run.Status.Finished() || !h.isShown(id))
}

// isShown reports whether the board shows the end of the last run of an issue. A run whose thread was deleted had the
// same key.
func (h history) isShown(id string) bool {
	return h.mark.Key == submitKey(id, h.generation) && (h.run == nil || h.mark.Run == h.run.ID)
}

// adoptOwn follows the run of an issue that is marked as claimed, if this ledger has the run. It reports whether the
// run goes on.
func (r *receiver) adoptOwn(ctx context.Context, s *seen) (busy bool, err error) {
	h, err := r.history(ctx, s.ID)
	s.skipped, s.read = true, time.Now()
	if err != nil || !h.unfollowed(s.ID) {
		return false, err
	}
	return !h.run.Status.Finished(), r.adopt(ctx, s, submitKey(s.ID, h.generation))
}

// claim submits an issue that is ready. The issue is read again first, because a list may be old. The row of the run
// is the claim: each submit of one generation of an issue gives the same run.
func (r *receiver) claim(ctx context.Context, s *seen) (claimed bool, err error) {
	h, err := r.history(ctx, s.ID)
	if err != nil {
		return false, err
	}
	if h.unfollowed(s.ID) {
		return true, r.adopt(ctx, s, submitKey(s.ID, h.generation))
	}
	it, fresh, gone, err := r.reread(ctx, s.ID, s.Native)
	if err != nil || gone {
		return false, err
	}
	if it.State != StateOpen || !r.accepts(it) || len(it.Blocked) > 0 || !h.mayStart(it) {
		fresh.skipped = true
		return false, nil
	}
	text, err := r.prompt(it, h.generation)
	if err != nil {
		fresh.skipped = true
		r.host.ReportError(fmt.Errorf("issue %s waits, because its prompt cannot be made: %w", it.Name, err))
		return false, nil
	}
	c := claim{Key: submitKey(it.ID, h.generation+1), Native: it.Native, Told: fresh.content}
	err = r.submit(ctx, it, c, text)
	switch mailroom.CodeOf(err) {
	case "":
	case mailroom.CodeInvalid, mailroom.CodeTooLarge, mailroom.CodeNotFound:
		fresh.refused = fresh.content
		r.host.ReportError(fmt.Errorf("cannot submit issue %s to %s: %w", it.Name, r.agentOf(it), err))
		return false, nil
	case mailroom.CodeConflict: // another server submitted it, with a text that was read before or after
		again, err := r.history(ctx, it.ID)
		if err != nil || again.run == nil || again.generation <= h.generation {
			return false, err
		}
		return true, r.adopt(ctx, fresh, submitKey(it.ID, again.generation))
	default:
		return false, err
	}
	return true, r.mark(ctx, it.ID, c, MarkWorking, "", channel.Cursor{})
}

// submit submits an issue with a text, and moves the cursor to its claim in the same transaction.
func (r *receiver) submit(ctx context.Context, it Issue, c claim, text string) error {
	next, cursor, err := r.pos.with(it.ID, c)
	if err != nil {
		return err
	}
	out, err := r.host.Submit(ctx, channel.Inbound{
		Chat: []string{it.ID}, Key: c.Key, Parts: mailroom.Text(text), Sender: r.options.Kind,
		Agent: r.agentOf(it), Metadata: map[string]string{labelIssue: it.Name, labelNative: it.Native}, Cursor: cursor,
	})
	if err != nil {
		return err
	}
	r.pos, r.runIDs[c.Key] = next, out.Run
	return nil
}

// adopt follows a run that another server has submitted, or whose claim was lost from the cursor: two servers that poll
// one board overwrite each other's positions. The next poll shows the end of the run.
func (r *receiver) adopt(ctx context.Context, s *seen, key string) error {
	s.skipped, s.read = true, time.Now()
	next, cursor, err := r.pos.with(s.ID, claim{Key: key, Native: s.Native, Told: s.content})
	if err != nil {
		return err
	}
	if err := r.host.MoveCursor(ctx, cursor); err != nil {
		return err
	}
	r.pos = next
	return nil
}
