package ledger

import (
	"context"
	"errors"
	"fmt"

	"mailroom"
	"mailroom/auth"
	"mailroom/entry"
	"mailroom/internal/budget"
	"mailroom/internal/reserved"
	"mailroom/project"
	"mailroom/store"
	"mailroom/thread"
)

// dropStep is how many entries of a deleted thread one transaction drops, with their runs. A thread
// with more entries, or more than dropBytes, is deleted in steps.
const (
	dropStep  = purgeStep
	dropBytes = maxBytes
	// dropSteps is the number of steps of one call. A sweep does the rest.
	dropSteps = 20
)

// DeleteThread deletes an idle thread that who sees, with everything that belongs to it. A long
// thread is first marked as deleted, which hides it from every caller. Its rows are then dropped in
// bounded transactions, by this call and by later sweeps.
func (l *Ledger) DeleteThread(ctx context.Context, threadID string, who *auth.Token) error {
	mark := func(tx *transaction, t *thread.State) (bool, error) {
		// The rows of the thread say what was sent already. Without them, the bound of a token would begin again. What is
		// known of a pull request bounds nothing, and each thread with a branch adds such a thread to its owner's quota.
		ofServer := reserved.ForServer(t.ID) && reserved.Prefix(t.ID) != reserved.Pulls
		if ofServer && who != nil && !who.SeesAll() {
			return false, mailroom.Errorf(mailroom.CodeForbidden,
				"only the operator deletes thread %q, through which the server sends", threadID)
		}
		if err := t.CheckDeletable(); err != nil {
			return false, err
		}
		if t.Changed() {
			return false, mailroom.Errorf(mailroom.CodeConflict, "thread %q is in use; try again", threadID)
		}
		for _, b := range t.Budgets {
			if err := withdraw(tx, t.ID, budget.Period(b.Period)); err != nil {
				return false, abortBatch{err}
			}
		}
		record := func() error {
			return appendAudit(tx, entry.Audit{Action: "thread.delete", ObjectKind: "thread", Object: t.ID,
				Detail: map[string]string{"owner": t.Owner}})
		}
		_, project := project.NameOf(t.ID)
		if project {
			if err := tx.dropProject(t.ID); err != nil {
				return false, err
			}
		}
		if !project && (isLong(t) || t.Bytes > dropBytes) {
			t.MarkDeleted(tx.now())
			return true, record()
		}
		tx.dropThread(t)
		return false, record()
	}
	o := op{name: "delete", threads: []string{threadID}, audits: true}
	long, err := onThread(ctx, l, o, who, thread.ScopeRow, mark)
	if err != nil || !long {
		return err
	}
	// The thread is deleted. If dropping its rows fails, a sweep continues.
	if err := l.dropRows(ctx, threadID, dropSteps); err != nil && ctx.Err() == nil {
		l.options.Log.WarnContext(ctx, "could not drop all rows of a deleted thread; the next sweep drops the others",
			"error", err)
	}
	return nil
}

// droppedBytes returns how many bytes of threads, and of blobs in the threads of o, the transaction drops so far.
func (tx *transaction) droppedBytes(o *op) int64 {
	sum := tx.changes.bytes
	for _, id := range o.threads {
		if t := tx.rows.thread(id); t != nil {
			sum += t.Blobs.DroppedBytes
		}
	}
	return sum
}

func isLong(t *thread.State) bool { return t.LastSeq-t.FirstSeq >= dropStep }

// dropRows drops rows of a deleted thread, in at most this many transactions of dropStep entries
// each. The next call continues.
func (l *Ledger) dropRows(ctx context.Context, thread string, steps int) error {
	for range steps {
		o := op{name: "drop", rank: rankPurge, threads: []string{thread}}
		more, err := run(ctx, l, o, func(tx *transaction) (bool, error) {
			t := tx.rows.thread(thread)
			if t.DeletedAt.IsZero() {
				return false, nil // already dropped
			}
			if more, err := tx.dropSomeBlobs(t); err != nil || more {
				return more, err
			}
			if !isLong(t) {
				tx.dropThread(t)
				return false, nil
			}
			next := t.FirstSeq + dropStep
			t.Purge(next, 0)
			tx.changes.dropEntries(thread, next)
			return true, nil
		})
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// dropDeleted continues with deleted threads that still have rows, also after a crash.
func (l *Ledger) dropDeleted(ctx context.Context) error {
	var marked []*mailroom.Thread
	err := l.View(ctx, func(r store.Reader) (err error) {
		marked, err = r.Threads(store.ThreadQuery{Deleted: true, Oldest: true, Limit: 1})
		return err
	})
	if err != nil || len(marked) == 0 {
		return err
	}
	return l.dropRows(ctx, marked[0].ID, dropSteps)
}

// deletingError is the cause of a temporary refusal: the id is in use until the rows of the deleted
// thread are dropped.
type deletingError struct{ thread string }

func (e deletingError) Error() string { return fmt.Sprintf("thread %q is being deleted", e.thread) }

// checkNotDeleted refuses a submit to a thread that is being deleted. The end of a run must not
// reach a later thread with the same id.
func checkNotDeleted(t *thread.State, in *thread.Submit) error {
	switch {
	case t.DeletedAt.IsZero():
		return nil
	case in.Origin.Via == "wake":
		return t.CheckVisibleTo(nil)
	}
	return &mailroom.Error{
		Code: mailroom.CodeConflict, Message: fmt.Sprintf("thread %q is being deleted; try again", t.ID),
		Cause: deletingError{t.ID},
	}
}

// finishDelete drops the remaining rows of the deleted thread that caused err, so that the
// operation can be repeated. It reports false if err has another cause.
func (l *Ledger) finishDelete(ctx context.Context, err error) bool {
	met, ok := errors.AsType[deletingError](err)
	if !ok {
		return false
	}
	return l.dropRows(ctx, met.thread, dropSteps) == nil
}
