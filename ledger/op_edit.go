package ledger

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"mailroom"
	"mailroom/auth"
	"mailroom/entry"
	"mailroom/internal/budget"
	"mailroom/internal/check"
	"mailroom/internal/reserved"
	"mailroom/store"
	"mailroom/thread"
)

// Cancel ends a run, or asks it to stop if a worker holds it. Runs of the agent of schedules are its timers and
// commands: only that agent's name cancels them, when a schedule is deleted, because a schedule without its timer would
// end without a word.
func (l *Ledger) Cancel(ctx context.Context, id, by string) (*mailroom.Run, error) {
	return l.onRun(ctx, "cancel", id, func(tx *transaction, t *thread.State) (*mailroom.Run, error) {
		if r := t.Run(id); r != nil && r.Agent == reserved.Scheduler && by != reserved.Scheduler {
			return nil, mailroom.Errorf(mailroom.CodeConflict, "run %s belongs to a schedule: pause or delete the schedule", id)
		}
		return t.Cancel(id, by, tx.now())
	})
}

// Retry puts a failed or cancelled run back into its thread's queue.
func (l *Ledger) Retry(ctx context.Context, in thread.Retry) (*mailroom.Run, error) {
	return l.onRun(ctx, "retry", in.Run, func(tx *transaction, t *thread.State) (*mailroom.Run, error) {
		if r := t.Run(in.Run); r != nil {
			in.AgentVersion = tx.options.Version(r.Agent)
		}
		return t.Retry(in, tx.now())
	})
}

// onRun applies a transition to the run with this id.
func (l *Ledger) onRun(ctx context.Context, name, id string,
	f func(*transaction, *thread.State) (*mailroom.Run, error)) (*mailroom.Run, error) {
	r, err := l.findRun(ctx, id)
	if err != nil {
		return nil, err
	}
	o := op{name: name, rank: rankPlain, threads: []string{r.Thread}, queues: true, runs: []string{id}}
	if o.audits, err = auditsThread(ctx, l, r.Thread); err != nil {
		return nil, err
	}
	return run(ctx, l, o, func(tx *transaction) (*mailroom.Run, error) {
		t := tx.rows.thread(r.Thread)
		if !t.DeletedAt.IsZero() {
			return nil, mailroom.Errorf(mailroom.CodeNotFound, "no run %q", id)
		}
		if err := tx.rows.ensure(t, thread.ScopeHead); err != nil {
			return nil, err
		}
		begin := len(t.Entries())
		r, err := f(tx, t)
		if err == nil && len(t.Entries()) > begin {
			err = appendAudit(tx, entry.Audit{Action: "run." + name, ObjectKind: "run", Object: id, Thread: t.ID})
		}
		return copyRun(r), err
	})
}

func (l *Ledger) findRun(ctx context.Context, id string) (*mailroom.Run, error) {
	var found []*mailroom.Run
	err := l.View(ctx, func(r store.Reader) (err error) {
		found, err = r.Runs(store.RunQuery{IDs: []string{id}})
		return err
	})
	if err == nil && len(found) == 0 {
		err = mailroom.Errorf(mailroom.CodeNotFound, "no run %q", id)
	}
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

// Interrupt supersedes the queue of a thread that who sees, and stops its current run.
func (l *Ledger) Interrupt(ctx context.Context, thread string, who *auth.Token) (thread.Interrupted, error) {
	return l.InterruptBefore(ctx, thread, 0, who)
}

// InterruptBefore is an Interrupt of the runs before a place. It can be repeated without affecting
// later runs.
func (l *Ledger) InterruptBefore(ctx context.Context, threadID string, place int64,
	who *auth.Token) (thread.Interrupted, error) {
	interrupt := func(tx *transaction, t *thread.State) (thread.Interrupted, error) {
		begin := len(t.Entries())
		out := t.Interrupt(place, who.Name, tx.now())
		if len(t.Entries()) == begin {
			return out, nil
		}
		return out, appendAudit(tx, entry.Audit{Action: "thread.interrupt", ObjectKind: "thread", Object: t.ID, Thread: t.ID})
	}
	audits, err := auditsThread(ctx, l, threadID)
	if err != nil {
		return thread.Interrupted{}, err
	}
	o := op{name: "interrupt", threads: []string{threadID}, audits: audits}
	return onThread(ctx, l, o, who, thread.ScopeAll, interrupt)
}

// Edit replaces the content of an unread message.
func (l *Ledger) Edit(ctx context.Context, threadID, message string, parts []mailroom.Part) (mailroom.Message, error) {
	edit := func(tx *transaction, t *thread.State) error {
		if err := tx.checkQuota(t.Owner, auth.Use{Bytes: int64(thread.PartsSize(parts))}); err != nil {
			return err
		}
		return t.Edit(message, parts, tx.now())
	}
	err := l.onMessage(ctx, "edit", threadID, message, thread.PartsSize(parts), edit)
	if err != nil && mailroom.CodeOf(err) != mailroom.CodeConflict {
		return mailroom.Message{}, err
	}
	now, found := l.Message(ctx, threadID, message)
	return now, cmp.Or(err, found)
}

// Retract withdraws an unread message.
func (l *Ledger) Retract(ctx context.Context, threadID, message string) error {
	return l.onMessage(ctx, "retract", threadID, message, 0, func(tx *transaction, t *thread.State) error {
		return t.Retract(message, tx.now())
	})
}

// onMessage runs a transition of a message. The run in the message's id holds it, or the current
// run if it was steered.
func (l *Ledger) onMessage(ctx context.Context, name, threadID, message string, size int,
	f func(*transaction, *thread.State) error) error {
	run, _, _ := strings.Cut(message, ".")
	change := func(tx *transaction, t *thread.State) (struct{}, error) {
		err := f(tx, t)
		if mailroom.CodeOf(err) == mailroom.CodeConflict {
			if _, missing := findMessage(tx.rows.stored, threadID, message); mailroom.CodeOf(missing) == mailroom.CodeNotFound {
				err = missing
			}
		}
		return struct{}{}, err
	}
	o := op{name: name, size: size, threads: []string{threadID}, runs: []string{run}}
	_, err := onThread(ctx, l, o, nil, thread.ScopeHead, change)
	return err
}

// PatchThread changes the agent, the metadata or the delivery target of a thread.
func (l *Ledger) PatchThread(ctx context.Context, thread string, p thread.Patch) (*mailroom.Thread, error) {
	o := op{name: "patch", rank: rankPlain, threads: []string{thread}}
	if p.DeliverTo != nil && *p.DeliverTo != "" {
		to, err := check.ThreadID(*p.DeliverTo)
		if err != nil {
			return nil, relocateError("deliver_to", err)
		}
		p.DeliverTo = &to
		o.threads = append(o.threads, to)
	}
	o.queues = len(p.Budgets) > 0
	if p.Agent != nil || p.DeliverTo != nil || o.queues { // metadata is the words of its owner
		audits, err := auditsThread(ctx, l, thread)
		if err != nil {
			return nil, err
		}
		o.audits = audits
	}
	return run(ctx, l, o, func(tx *transaction) (*mailroom.Thread, error) {
		t := tx.rows.thread(thread)
		if !t.DeletedAt.IsZero() {
			return nil, t.CheckVisibleTo(nil)
		}
		if err := tx.loadDelivery(t, &p); err != nil {
			return nil, err
		}
		was := t.Thread
		if err := patch(tx, t, p); err != nil {
			return nil, err
		}
		row := t.Thread
		return &row, recordPatch(tx, &was, &row)
	})
}

// patch changes a thread. Questions about budgets that it changes are withdrawn.
func patch(tx *transaction, t *thread.State, p thread.Patch) error {
	if len(p.Budgets) > 0 {
		if err := tx.rows.ensure(t, thread.ScopeHead); err != nil {
			return err
		}
	}
	was := budgetTexts(&t.Thread)
	if err := t.Patch(p, tx.now()); err != nil {
		return err
	}
	tx.rows.counts = tx.rows.counts || len(t.Budgets) > 0
	for period := range p.Budgets {
		if was[string(period)] == budgetTexts(&t.Thread)[string(period)] {
			continue
		}
		if err := withdraw(tx, t.ID, period); err != nil {
			return abortBatch{err}
		}
	}
	return nil
}

// withdraw cancels the open question about a budget of a thread, if there is one.
func withdraw(tx *transaction, threadID string, period budget.Period) error {
	p := budget.Pool{Scope: budget.Scope{Kind: budget.Thread, Name: threadID}, Period: period}
	t, err := tx.rows.lock(budgetThread(&p))
	if err == nil {
		err = tx.rows.ensure(t, thread.ScopeHead)
	}
	if err != nil || t.Current == "" {
		return err
	}
	if r := t.Run(t.Current); r != nil && r.Status == mailroom.StatusWaiting {
		_, err = t.Cancel(r.ID, auth.Operator, tx.now())
	}
	return err
}

// loadDelivery loads the threads that the check of DeliverTo needs.
func (tx *transaction) loadDelivery(t *thread.State, p *thread.Patch) error {
	if p.DeliverTo == nil || *p.DeliverTo == "" || t.CreatedAt.IsZero() {
		return nil
	}
	to := tx.rows.thread(*p.DeliverTo)
	p.Target, p.Source, p.Foreign = &to.Thread, nil, false
	if p.By != nil && !p.By.Has(auth.PermissionAdmin) && !to.Exists() {
		foreign, err := tx.inForeignNamespace(to, p.By)
		if err != nil {
			return err
		}
		p.Foreign = foreign || slices.ContainsFunc(tx.options.Reserved,
			func(begin string) bool { return strings.HasPrefix(to.ID, begin) })
	}
	for _, other := range tx.rows.order { // with the changes of this batch
		if other.DeliverTo == t.ID {
			p.Source = &other.Thread
		}
	}
	// One row beyond the loaded threads is enough to find another.
	rows, err := tx.rows.stored.Threads(store.ThreadQuery{DeliverTo: t.ID, Limit: len(tx.rows.order) + 1})
	for _, row := range rows {
		if tx.rows.threads[row.ID] == nil {
			p.Source = cmp.Or(p.Source, row)
		}
	}
	return err
}

// relocateError sets the field that an error about a thread id refers to.
func relocateError(location string, err error) error {
	e, ok := errors.AsType[*mailroom.Error](err)
	if !ok || len(e.Fields) != 1 {
		return err
	}
	located := *e
	located.Fields = []mailroom.Field{{Location: location, Message: e.Fields[0].Message, Value: e.Fields[0].Value}}
	return &located
}

// onThread runs a transition of the thread that o names and who sees; nil is the server itself.
func onThread[T any](ctx context.Context, l *Ledger, o op, who *auth.Token, s thread.Scope,
	f func(*transaction, *thread.State) (T, error)) (T, error) {
	o.rank, o.queues = rankPlain, s != thread.ScopeRow
	return run(ctx, l, o, func(tx *transaction) (T, error) {
		var none T
		t := tx.rows.thread(o.threads[0])
		if err := t.CheckVisibleTo(who); err != nil {
			return none, err
		}
		if err := tx.rows.ensure(t, s); err != nil {
			return none, err
		}
		return f(tx, t)
	})
}
