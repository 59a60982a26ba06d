package ledger

import (
	"context"
	"errors"
	"fmt"

	"mailroom"
)

// dropStep is how many entries of a deleted thread one transaction drops, with their
// runs; a thread that has more of them, or more than dropBytes, is deleted in steps.
const (
	dropStep  = purgeStep
	dropBytes = maxBytes
	// dropSteps is how many steps a call takes at once. A sweep takes the others.
	dropSteps = 20
)

// DeleteThread removes an idle thread that who sees, with all that belongs to it. A
// long one is marked first, from when on it is gone for every caller, and its rows are
// dropped in bounded transactions, by this call and by the sweeps after it.
func (l *Ledger) DeleteThread(ctx context.Context, thread string, who *mailroom.Token) error {
	long, err := onThread(ctx, l, "delete", thread, who, mailroom.ScopeRow, nil, func(b *batch, t *mailroom.ThreadState) (bool, error) {
		if err := t.CheckDeletable(); err != nil {
			return false, err
		}
		if t.Changed() {
			return false, mailroom.Errorf(mailroom.CodeConflict, "thread %q is in use; try again", thread)
		}
		_, project := mailroom.ProjectOf(t.ID)
		if project {
			if err := b.dropProject(t.ID); err != nil {
				return false, err
			}
		}
		if !project && (isLong(t) || t.Bytes > dropBytes) {
			t.MarkDeleted(b.now)
			return true, nil
		}
		b.replaceDeleted(t)
		b.changes.DropThreads = append(b.changes.DropThreads, t.ID)
		return false, nil
	})
	if err != nil || !long {
		return err
	}
	// The thread is deleted, whatever becomes of its rows now: a sweep goes on.
	if err := l.dropRows(ctx, thread, dropSteps); err != nil && ctx.Err() == nil {
		l.options.Log.WarnContext(ctx, "rows of a deleted thread were not dropped; a sweep goes on", "error", err)
	}
	return nil
}

func isLong(t *mailroom.ThreadState) bool { return t.LastSeq-t.FirstSeq >= dropStep }

// dropRows drops rows of a thread that is marked, in so many steps at most.
func (l *Ledger) dropRows(ctx context.Context, thread string, steps int) error {
	for range steps {
		o := op{name: "drop", rank: rankPurge, threads: []string{thread}}
		more, err := run(ctx, l, o, func(b *batch) (bool, error) {
			t := b.thread(thread)
			if t.DeletedAt.IsZero() {
				return false, nil // others have dropped it
			}
			if !isLong(t) {
				b.replaceDeleted(t)
				b.changes.DropThreads = append(b.changes.DropThreads, t.ID)
				return false, nil
			}
			next := t.FirstSeq + dropStep
			t.Purge(next, 0)
			b.changes.DropEntries = append(b.changes.DropEntries, mailroom.Prefix{Thread: thread, Seq: next})
			return true, nil
		})
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// dropDeleted goes on with the threads that were marked, also before a crash.
func (l *Ledger) dropDeleted(ctx context.Context) error {
	var marked []*mailroom.Thread
	err := l.View(ctx, func(r mailroom.Reader) (err error) {
		marked, err = r.Threads(mailroom.ThreadQuery{Deleted: true, Oldest: true, Limit: 1})
		return err
	})
	if err != nil || len(marked) == 0 {
		return err
	}
	return l.dropRows(ctx, marked[0].ID, dropSteps)
}

// deletingError is the cause of a refusal that ends by itself: the id is taken until
// the rows of the thread that had it are dropped.
type deletingError struct{ thread string }

func (e deletingError) Error() string { return fmt.Sprintf("thread %q is being deleted", e.thread) }

// checkNotDeleted refuses a submit to a thread that is being deleted. What a run's end
// tells is not for the thread that comes after it.
func checkNotDeleted(t *mailroom.ThreadState, in *mailroom.Submit) error {
	switch {
	case t.DeletedAt.IsZero():
		return nil
	case in.Origin.Via == "wake":
		return t.CheckVisibleTo(nil)
	}
	return &mailroom.Error{
		Code: mailroom.CodeConflict, Message: fmt.Sprintf("thread %q is being deleted; try again", t.ID), Cause: deletingError{t.ID},
	}
}

// finishDelete drops the rest of the thread that an operation met, so that it can be
// done again. It reports false if that was not why the operation failed.
func (l *Ledger) finishDelete(ctx context.Context, err error) bool {
	met, ok := errors.AsType[deletingError](err)
	if !ok {
		return false
	}
	return l.dropRows(ctx, met.thread, dropSteps) == nil
}
