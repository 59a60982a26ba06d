package ledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"mailroom"
	"mailroom/auth"
	"mailroom/internal/check"
	"mailroom/internal/digest"
	"mailroom/internal/reserved"
	"mailroom/store"
	"mailroom/thread"
)

// Submit accepts messages for a thread and creates the thread if there is none, for the operator
// unless Owner is set. An empty thread id creates a thread, the same one for the same owner and
// key.
func (l *Ledger) Submit(ctx context.Context, in thread.Submit) (store.Submitted, error) {
	if in.Owner == "" {
		in.Owner = auth.Operator
	}
	switch {
	case strings.TrimSpace(in.Thread) != "":
		id, err := check.ThreadID(in.Thread)
		if err != nil {
			return store.Submitted{}, err
		}
		in.Thread = id
	case in.Key != "":
		in.Thread = digest.ID("thread", in.Owner, in.Key)
	default:
		in.Thread = NewID()
	}
	if in.OnTheWay {
		return store.Submitted{}, holdJoin(ctx, l, in)
	}
	if in.Run == "" {
		in.Run = NewID()
	}
	if err := in.Check(); err != nil {
		return store.Submitted{}, err
	}
	o := op{name: "submit", rank: rankPlain, size: in.Cost(), threads: []string{in.Thread},
		queues: in.Mode != mailroom.ModeQueue || in.Join > 0}
	if limitsApply(in.Owner) {
		o.tokens = []string{in.Owner}
	}
	if in.Key != "" {
		o.keys = []store.KeyRef{{Thread: in.Thread, Key: in.Key}}
	}
	if in.DeliverTo != "" {
		o.threads = append(o.threads, in.DeliverTo)
	}
	if len(in.Decisions) > 0 {
		runs, err := l.ticketRuns(ctx, in.Decisions)
		if err != nil {
			return store.Submitted{}, err
		}
		o.runs, o.audits = runs, true
	}
	action := actionOf(ctx)
	o.audits = o.audits || action != nil
	out, err := run(ctx, l, o, func(tx *transaction) (store.Submitted, error) {
		begin := len(tx.rows.thread(in.Thread).Entries())
		out, err := tx.submit(in, true)
		if err == nil && len(in.Decisions) > 0 {
			err = raiseDecided(tx, tx.rows.thread(in.Thread), begin)
		}
		if err == nil && o.audits {
			err = recordDecisions(tx, tx.rows.thread(in.Thread), begin)
		}
		if err == nil && action != nil {
			err = recordAction(tx, action)
		}
		return out, err
	})
	if err == nil && len(in.Decisions) > 0 {
		onDecided(l, in.Thread)
	}
	return out, err
}

// holdJoin keeps the run of a thread that waits for more messages waiting, see [thread.HoldJoin].
func holdJoin(ctx context.Context, l *Ledger, in thread.Submit) error {
	o := op{name: "hold_join", threads: []string{in.Thread}}
	_, err := onThread(ctx, l, o, nil, thread.ScopeJoin, func(tx *transaction, t *thread.State) (bool, error) {
		return thread.HoldJoin(t, &in, tx.now()), nil
	})
	if mailroom.CodeOf(err) == mailroom.CodeNotFound {
		return nil // a conversation without a message
	}
	return err
}

// inForeignNamespace reports whether by may not create t because its id lies in a namespace of
// other tokens. It reads all tokens once per batch; only the operator can create tokens, so they
// are few.
func (tx *transaction) inForeignNamespace(t *thread.State, by *auth.Token) (bool, error) {
	if by == nil || !t.CreatedAt.IsZero() || by.Has(auth.PermissionAdmin) {
		return false, nil
	}
	rows, err := tx.rows.accounts()
	return err == nil && by.InForeignNamespace(t.ID, rows, tx.now()), err
}

// submit applies one submit to a locked thread. It is limited by the owner's quota and the queue's
// length if a caller makes it, and not if a run does.
func (tx *transaction) submit(in thread.Submit, limited bool) (store.Submitted, error) {
	t := tx.rows.thread(in.Thread)
	if err := checkNotDeleted(t, &in); err != nil {
		return store.Submitted{}, err
	}
	if err := thread.CheckReached(t, &in, tx.options.Reserved); err != nil {
		return store.Submitted{}, err
	}
	if err := tx.rows.loadKey(t, in.Key); err != nil {
		return store.Submitted{}, err
	}
	if limited {
		if err := tx.checkSubmitQuota(&in); err != nil {
			return store.Submitted{}, err
		}
	}
	if err := tx.rows.ensure(t, in.Scope(&t.Thread, tx.now())); err != nil {
		return store.Submitted{}, err
	}
	found, err := tx.resolve(t, &in, limited)
	if err != nil {
		return store.Submitted{}, err
	}
	out, err := t.Submit(in, found, tx.now())
	if err != nil {
		return out, err
	}
	if in.DeliverTo != "" && t.DeliverTo == in.DeliverTo {
		tx.rows.thread(in.DeliverTo).Open(in.DeliverAgent, t.Owner, tx.now())
	}
	if in.Cursor != nil {
		tx.moveCursor(*in.Cursor)
	}
	return out, nil
}

// resolve looks up what the transition of a submit needs besides the thread.
func (tx *transaction) resolve(t *thread.State, in *thread.Submit, limited bool) (found thread.Resolved, err error) {
	found = thread.Resolved{
		Agent:        cmp.Or(reserved.Agent(t.ID), in.Agent, t.Agent, tx.options.DefaultAgent),
		AgentVersion: in.AgentVersion,
		Reserved:     tx.options.Reserved,
	}
	found.MaxAttempts, found.KeyFrom = tx.options.Retry(found.Agent).Attempts, tx.options.Limits(found.Agent).KeyFrom
	if found.AgentVersion == "" {
		found.AgentVersion = tx.options.Version(found.Agent)
	}
	if len(in.Options) > 0 {
		found.BadOptions = tx.options.CheckOptions(found.Agent, in.Options)
	}
	if in.Budget.IsZero() {
		found.Budget = tx.options.Budgets.ofRun(found.Agent, cmp.Or(t.Owner, in.Owner))
	} else {
		found.BadBudget = tx.options.CheckBudget(found.Agent, in.Options, in.Budget)
	}
	if in.AgentVersion != "" {
		if found.BadVersion, err = checkVersion(tx, found.Agent, in.AgentVersion); err != nil {
			return found, err
		}
	}
	if in.DeliverTo != "" {
		found.DeliverTo = &tx.rows.thread(in.DeliverTo).Thread
	}
	if limited {
		found.MaxQueued = tx.options.MaxQueued
		if found.Queued, err = tx.countQueued(t, found.MaxQueued); err != nil {
			return found, err
		}
	}
	if !in.ByServer {
		found.ForeignNamespace, err = tx.inForeignNamespace(t, in.By)
	}
	return found, err
}

// checkVersion returns why a run cannot have this version of its agent, nil if it can.
func checkVersion(tx *transaction, agent, version string) (bad, err error) {
	if tx.options.KnowsVersion(agent, version) {
		return nil, nil
	}
	rows, err := tx.rows.stored.Agents() // another server, or an earlier configuration, may have it
	is := func(d store.Definition) bool { return d.Agent == agent && d.Version == version }
	if err != nil || slices.ContainsFunc(rows.Definitions, is) {
		return nil, err
	}
	now := "it has no versions now"
	if current := tx.options.Version(agent); current != "" {
		now = "the current one is " + current
	}
	return fmt.Errorf("is no version of agent %q; leave it out, or use one that a run shows: %s", agent, now), nil
}

// countQueued returns the length of the queue if it may have reached its limit, else 0. The queue of a thread that
// has given out fewer places than the limit cannot have reached it.
func (tx *transaction) countQueued(t *thread.State, limit int) (n int, err error) {
	if limit == 0 || t.NextPlace <= int64(limit) {
		return 0, nil
	}
	for _, set := range []store.RunSet{store.RunsQueued, store.RunsScheduled} {
		counts, err := tx.rows.stored.Count(store.CountQuery{Thread: t.ID, Set: set})
		if err != nil {
			return 0, err
		}
		n += counts.Sum()
	}
	return n + t.Runs.NewInQueue(), nil
}

// Append commits a durable step of a run, with its sends. A repeat of the same step returns the seq of the first
// result.
func (ws Workers) Append(ctx context.Context, a thread.StepCommit) (thread.Appended, error) {
	if err := ws.addressKeepers(ctx, &a); err != nil {
		return thread.Appended{}, err
	}
	if err := a.Check(); err != nil {
		return thread.Appended{}, err
	}
	o := op{name: "append", rank: rankPlain, size: a.Size(), threads: []string{a.Thread}, queues: true,
		runs: []string{a.Run}}
	for _, s := range a.Step.Sends {
		target, id, key := thread.SendIDs(s, a.Run)
		o.threads = append(o.threads, target)
		o.runs = append(o.runs, id)
		o.keys = append(o.keys, store.KeyRef{Thread: target, Key: key})
	}
	return run(ctx, ws.ledger, o, func(tx *transaction) (out thread.Appended, err error) {
		if out.Seq, err = tx.append(&a); err != nil {
			return out, err
		}
		r := tx.rows.thread(a.Thread).Run(a.Run)
		if r.Attempt != a.Attempt {
			return out, nil // the repeat of a step whose claim has ended
		}
		if r.Budget != nil {
			out.Limit = &r.Budget.Limit
		}
		out.Budget, out.Stop = r.BudgetLeft(), r.Stop
		if a.Step.Extend != 0 && r.Stop == "" {
			out.Left = thread.TimeLeft(r, tx.now())
		}
		return out, nil
	})
}

// addressKeepers gives the sends to the agents of schedules and of pull requests that name no thread their thread: the
// book, or the pull request, of the run's own thread. Its id has the owner, which agents do not know.
func (ws Workers) addressKeepers(ctx context.Context, a *thread.StepCommit) error {
	place := func(s mailroom.Send, owner string) string {
		switch {
		case strings.TrimSpace(s.Thread) != "":
		case s.Agent == reserved.Scheduler:
			return reserved.BookID(owner, a.Thread)
		case s.Agent == reserved.Puller:
			return reserved.PullsID(owner, a.Thread)
		}
		return ""
	}
	if !slices.ContainsFunc(a.Step.Sends, func(s mailroom.Send) bool { return place(s, "") != "" }) {
		return nil
	}
	a.Step.Sends = slices.Clone(a.Step.Sends) // do not change the caller's slice
	return ws.ledger.View(ctx, func(r store.Reader) error {
		rows, err := r.Threads(store.ThreadQuery{IDs: []string{a.Thread}})
		for _, t := range rows {
			for i, s := range a.Step.Sends {
				if id := place(s, t.Owner); id != "" {
					a.Step.Sends[i].Thread = id
				}
			}
		}
		return err
	})
}

func (tx *transaction) append(a *thread.StepCommit) (int64, error) {
	t := tx.rows.thread(a.Thread)
	if err := tx.loadBlobs(t, a.Run, a.Blobs); err != nil {
		return 0, err
	}
	seq, repeat, err := t.CheckStep(a)
	if err != nil || repeat {
		return seq, err
	}
	sends, err := tx.makeSends(a, t)
	if err != nil {
		return 0, err
	}
	var sent []store.Submitted
	var ended []*thread.ChildEnd
	for i, in := range sends {
		s := a.Step.Sends[i]
		// What a schedule sends is a submit of its owner; its own timer must not end by a quota.
		res, err := tx.submit(in, in.Sender == reserved.Scheduler && reserved.Prefix(in.Thread) != reserved.Schedule)
		if err != nil {
			return 0, tx.abortAfter(i, err)
		}
		sent = append(sent, res)
		if s.Answer == mailroom.AnswerWait && res.Disposition == store.DispositionDuplicate {
			e, err := thread.EndOfChild(tx.rows.thread(res.Thread).Run(res.Run), a.Run, s.Name)
			if err != nil {
				return 0, tx.abortAfter(i, err)
			}
			ended = append(ended, e)
		}
	}
	if err := tx.rows.ensure(t, thread.ScopeHead); err != nil {
		return 0, err
	}
	priced := *a // a repeat of the batch begins with what the agent reported
	var known bool
	priced.Step.Usage, known = tx.options.Prices.Charge(a.Step.Usage, t.Run(a.Run).Usage.Model)
	priced.Unpriced = !known
	if seq, err = t.Append(&priced, sent, tx.now()); err != nil {
		return 0, err
	}
	for _, e := range ended {
		if e != nil {
			t.OnChildEnd(*e, tx.now())
		}
	}
	return seq, nil
}

// makeSends returns the submits of a step's sends. It refuses a name that was used for another
// thread, because names are unique in a run.
func (tx *transaction) makeSends(a *thread.StepCommit, from *thread.State) ([]thread.Submit, error) {
	sends := a.Submits(from.Run(a.Run), &from.Thread, tx.now())
	for i, s := range a.Step.Sends {
		if to, ok := from.Run(a.Run).Joined[s.Name]; ok && to != sends[i].Thread {
			return nil, errSentElsewhere(s.Name, a.Run, to)
		}
	}
	threads := []string{from.ID} // the operation names all of them, so what they have is not loaded again
	for _, in := range sends {
		threads = append(threads, in.Thread)
	}
	for i, in := range sends {
		if at := tx.rows.findRun(in.Run, threads); at != "" && at != in.Thread {
			return nil, errSentElsewhere(a.Step.Sends[i].Name, a.Run, at)
		}
	}
	return sends, lend(tx, a, from, sends, threads)
}

// lend gives the sends of a step their parts of the run's budget, except those that the run has made before.
func lend(tx *transaction, a *thread.StepCommit, from *thread.State, sends []thread.Submit, threads []string) error {
	r := from.Run(a.Run)
	known := make([]bool, len(sends))
	for i, in := range sends {
		_, joined := r.Joined[a.Step.Sends[i].Name]
		known[i] = joined || tx.rows.findRun(in.Run, threads) != ""
	}
	return thread.Lend(r, a.Step.Sends, sends, known)
}

func errSentElsewhere(name, run, thread string) error {
	return mailroom.Errorf(mailroom.CodeConflict,
		"send %q of run %s already went to thread %q; use another name", name, run, thread)
}

// abortAfter returns err, marked as an abortBatch if n changes were made before it.
func (tx *transaction) abortAfter(n int, err error) error {
	if n > 0 {
		return abortBatch{err}
	}
	return err
}

// Flush stores a piece of the message that a run is writing, so that it survives the loss of the
// worker.
func (ws Workers) Flush(ctx context.Context, c mailroom.Claim, p store.Partial) error {
	p.Thread, p.Run, p.Attempt = c.Thread, c.Run, c.Attempt
	o := op{name: "flush", rank: rankPlain, size: len(p.Text), threads: []string{c.Thread}, runs: []string{c.Run}}
	return perform(ctx, ws.ledger, o, func(tx *transaction) error {
		return tx.rows.thread(c.Thread).Flush(c, p)
	})
}

// MarkSteersRead marks the steered messages that no step covers yet as read, and returns them.
func (ws Workers) MarkSteersRead(ctx context.Context, c mailroom.Claim) ([]mailroom.Input, error) {
	o := op{name: "steered", rank: rankPlain, threads: []string{c.Thread}, runs: []string{c.Run}}
	return run(ctx, ws.ledger, o, func(tx *transaction) ([]mailroom.Input, error) {
		return tx.rows.thread(c.Thread).ReadSteers(c, tx.now())
	})
}

// ReadSteered marks steered messages as read and returns the messages whose entries follow the entry after. last is
// the seq of the last such entry, or after if there is none.
func (ws Workers) ReadSteered(ctx context.Context, c mailroom.Claim,
	after int64) (messages []mailroom.Message, last int64, err error) {
	inputs, err := ws.MarkSteersRead(ctx, c)
	if err != nil {
		return nil, after, err
	}
	var seqs []int64
	last = after
	for _, in := range inputs {
		if in.Seq > after {
			seqs = append(seqs, in.Seq)
			last = max(last, in.Seq)
		}
	}
	if messages, err = ws.ledger.Messages(ctx, c.Thread, seqs); err != nil {
		return nil, after, err
	}
	return messages, last, nil
}

// Settle ends an attempt and returns the run. A repeat of the same settle returns the same result.
func (ws Workers) Settle(ctx context.Context, s thread.Settle) (*mailroom.Run, error) {
	return ws.SettleWith(ctx, s, nil)
}

// SettleWith is Settle for an engine. It calls begun when the settle enters a batch, before the
// claimers are asked for capacity, so that the freed slot is filled by the commit that settles, and
// not before the thread itself can be due again. begun must be fast and must not call the ledger.
func (ws Workers) SettleWith(ctx context.Context, s thread.Settle, begun func()) (*mailroom.Run, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	o := op{name: "settle", rank: rankPlain, size: s.Size(), onBatch: begun, threads: []string{s.Thread}, queues: true,
		runs: []string{s.Run}, pauses: true}
	if s.GiveWay != "" {
		o.runs = append(o.runs, s.GiveWay)
	}
	if s.Failure != nil && s.Failure.Agent {
		o.topics = []string{topicAgents} // the settle may pause the agent
	}
	resumed, worker := "", "" // agent that works again, and on which worker
	r, err := run(ctx, ws.ledger, o, func(tx *transaction) (*mailroom.Run, error) {
		resumed = ""
		t := tx.rows.thread(s.Thread)
		if err := tx.rows.ensure(t, thread.ScopeHead); err != nil {
			return nil, err
		}
		in := s
		if r := t.Run(s.Run); in.Message == nil && r != nil && r.Flushed {
			stored, err := tx.rows.stored.Partials(s.Run)
			if err != nil {
				return nil, err
			}
			in.Message = t.Partials.Text(s.Run, stored) // flushed text always ends in an entry
		}
		holder := t.Worker
		r, err := t.Settle(&in, tx.now())
		if err != nil {
			return copyRun(r), err
		}
		works, err := afterAttempt(tx, r.Agent, holder, &in)
		if works {
			resumed, worker = r.Agent, holder
		}
		return copyRun(r), err
	})
	if err == nil && resumed != "" {
		ws.ledger.endProbe(ctx, resumed, worker)
	}
	return r, err
}

// copyRun returns a copy of r that later operations of the batch cannot change.
func copyRun(r *mailroom.Run) *mailroom.Run {
	if r == nil {
		return nil
	}
	c := *r
	c.Inputs, c.Steers = slices.Clone(r.Inputs), slices.Clone(r.Steers)
	for i := range c.Steers {
		c.Steers[i].Own = copyRun(c.Steers[i].Own)
	}
	return &c
}
