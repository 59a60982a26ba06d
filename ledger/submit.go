package ledger

import (
	"context"
	"slices"
	"strings"

	"mailroom"
)

// Submit takes messages in for a thread, which it makes, for the operator unless
// Owner is another, if there is none. A blank thread becomes a new one, the
// same one for the same owner and key. Agent, if it is asked for, comes with
// SetAgent; else the thread's is used, or the default.
func (l *Ledger) Submit(ctx context.Context, in mailroom.Submit) (mailroom.Submitted, error) {
	if in.Owner == "" {
		in.Owner = mailroom.Operator
	}
	switch {
	case strings.TrimSpace(in.Thread) != "":
		id, err := mailroom.CheckThreadID(in.Thread)
		if err != nil {
			return mailroom.Submitted{}, err
		}
		in.Thread = id
	case in.Key != "":
		in.Thread = mailroom.DeriveID("thread", in.Owner, in.Key)
	default:
		in.Thread = NewID()
	}
	if in.Run == "" {
		in.Run = NewID()
	}
	if err := in.Check(); err != nil {
		return mailroom.Submitted{}, err
	}
	o := op{name: "submit", rank: rankPlain, size: in.Size(), threads: []string{in.Thread}}
	if in.DeliverTo != "" {
		o.threads = append(o.threads, in.DeliverTo)
	}
	in.MaxQueued = l.options.MaxQueued
	if len(in.Decisions) > 0 {
		runs, err := l.ticketRuns(ctx, in.Decisions)
		if err != nil {
			return mailroom.Submitted{}, err
		}
		o.runs = runs
	}
	return run(ctx, l, o, func(b *batch) (mailroom.Submitted, error) {
		return b.submitAs(in, b.checkSubmitQuota)
	})
}

// inForeignNamespace reports whether by may not make t because its id lies in a namespace of
// others. All accounts are looked at, once in a batch that makes threads: the operator
// alone makes accounts.
func (b *batch) inForeignNamespace(t *mailroom.ThreadState, by *mailroom.Token) (bool, error) {
	if by == nil || !t.CreatedAt.IsZero() || by.Has(mailroom.PermissionAdmin) {
		return false, nil
	}
	rows, err := b.accounts()
	return err == nil && by.InForeignNamespace(t.ID, rows), err
}

// submit is one submit within a batch; its thread is locked.
func (b *batch) submit(in mailroom.Submit) (mailroom.Submitted, error) {
	return b.submitAs(in, func(*mailroom.Submit) error { return nil })
}

// submitAs is submit for who is admitted.
func (b *batch) submitAs(in mailroom.Submit, admit func(*mailroom.Submit) error) (mailroom.Submitted, error) {
	t := b.thread(in.Thread)
	if err := checkNotDeleted(t, &in); err != nil {
		return mailroom.Submitted{}, err
	}
	if !in.SetAgent {
		if in.Agent = t.Agent; in.Agent == "" {
			in.Agent = b.l.options.DefaultAgent
		}
	}
	if in.AgentVersion == "" {
		in.AgentVersion = b.l.options.Version(in.Agent)
	}
	if err := b.loadKey(t, in.Key); err != nil {
		return mailroom.Submitted{}, err
	}
	if err := admit(&in); err != nil {
		return mailroom.Submitted{}, err
	}
	if err := b.ensure(t, in.Scope(&t.Thread)); err != nil {
		return mailroom.Submitted{}, err
	}
	if err := b.countQueued(t, &in); err != nil {
		return mailroom.Submitted{}, err
	}
	in.Reserved = b.l.options.Reserved
	squats, err := b.inForeignNamespace(t, in.By)
	if err != nil {
		return mailroom.Submitted{}, err
	}
	in.ForeignNamespace = squats
	if in.DeliverTo != "" {
		in.Target = &b.thread(in.DeliverTo).Thread
	}
	out, err := t.Submit(in, b.now)
	if err != nil {
		return out, err
	}
	if in.DeliverTo != "" && t.DeliverTo == in.DeliverTo {
		b.thread(in.DeliverTo).Open(in.DeliverAgent, t.Owner, b.now)
	}
	if in.Cursor != nil {
		b.moveCursor(*in.Cursor)
	}
	return out, nil
}

// countQueued says how long the queue is, where there is a bound that may be met: a
// thread that never gave as many places has no such queue.
func (b *batch) countQueued(t *mailroom.ThreadState, in *mailroom.Submit) error {
	if in.MaxQueued == 0 || t.NextPlace <= int64(in.MaxQueued) {
		return nil
	}
	for _, set := range []mailroom.RunSet{mailroom.RunsQueued, mailroom.RunsScheduled} {
		counts, err := b.tx.Count(mailroom.CountQuery{Thread: t.ID, Set: set})
		if err != nil {
			return err
		}
		in.Queued += counts.Sum()
	}
	in.Queued += t.NewInQueue()
	return nil
}

// loadKey loads a submit key and the run it names.
func (b *batch) loadKey(t *mailroom.ThreadState, key string) error {
	if key == "" || t.Key == 0 {
		return nil
	}
	keys, err := b.tx.Keys(t.ID, []string{key})
	if err != nil {
		return err
	}
	for _, k := range keys {
		t.AddKey(k)
		if err := b.loadRuns([]string{k.Result.Run}); err != nil {
			return err
		}
	}
	return nil
}

// Append commits a durable step of a run, with its sends, and returns the seq of
// the last entry. A repeat of the same step answers with the first result.
func (l *Ledger) Append(ctx context.Context, a mailroom.StepCommit) (int64, error) {
	if err := a.Check(); err != nil {
		return 0, err
	}
	o := op{name: "append", rank: rankPlain, size: a.Size(), threads: []string{a.Thread}, runs: []string{a.Run}}
	for _, s := range a.Step.Sends {
		o.threads = append(o.threads, s.Target(a.Run))
	}
	return run(ctx, l, o, func(b *batch) (int64, error) { return b.append(&a) })
}

func (b *batch) append(a *mailroom.StepCommit) (int64, error) {
	t := b.thread(a.Thread)
	seq, repeat, err := t.CheckStep(a)
	if err != nil || repeat {
		return seq, err
	}
	sends, err := b.makeSends(a, t)
	if err != nil {
		return 0, err
	}
	var sent []mailroom.Submitted
	var ended []*mailroom.ChildEnd
	for i, in := range sends {
		s := a.Step.Sends[i]
		res, err := b.submit(in)
		if err != nil {
			return 0, b.abortAfter(i, err)
		}
		sent = append(sent, res)
		if s.Answer == mailroom.AnswerWait && res.Disposition == mailroom.DispositionDuplicate {
			e, err := b.thread(res.Thread).FindChild(a.Run, s.Name, res.Run)
			if err != nil {
				return 0, b.abortAfter(i, err)
			}
			ended = append(ended, e)
		}
	}
	if err := b.ensure(t, mailroom.ScopeHead); err != nil {
		return 0, err
	}
	if seq, err = t.Append(a, sent, b.now); err != nil {
		return 0, err
	}
	for _, e := range ended {
		if e != nil {
			t.OnChildEnd(*e, b.now)
		}
	}
	return seq, nil
}

// makeSends are the submits that a step makes. A name that went to another thread
// before is refused: it is unique in the run.
func (b *batch) makeSends(a *mailroom.StepCommit, from *mailroom.ThreadState) ([]mailroom.Submit, error) {
	var sends []mailroom.Submit
	var ids []string
	for _, s := range a.Step.Sends {
		in := s.Submit(from.Run(a.Run), &from.Thread)
		if err := in.Check(); err != nil {
			return nil, err
		}
		if to, ok := from.Run(a.Run).Joined[s.Name]; ok && to != in.Thread {
			return nil, errSentElsewhere(s.Name, a.Run, to)
		}
		sends = append(sends, in)
		ids = append(ids, in.Run)
	}
	if len(ids) == 0 {
		return nil, nil
	}
	made, err := b.tx.Runs(mailroom.RunQuery{IDs: ids})
	if err != nil {
		return nil, err
	}
	for _, r := range made {
		if i := slices.Index(ids, r.ID); sends[i].Thread != r.Thread {
			return nil, errSentElsewhere(a.Step.Sends[i].Name, a.Run, r.Thread)
		}
	}
	return sends, nil
}

func errSentElsewhere(name, run, thread string) error {
	return mailroom.Errorf(mailroom.CodeConflict, "send %q of run %s went to thread %q before", name, run, thread)
}

// abortAfter makes an error after n changes one that begins the batch again.
func (b *batch) abortAfter(n int, err error) error {
	if n > 0 {
		return abortBatch{err}
	}
	return err
}

// Flush keeps a piece of the message that a run is writing, so that it is not
// lost with the worker.
func (l *Ledger) Flush(ctx context.Context, c mailroom.Claim, p mailroom.Partial) error {
	p.Thread, p.Run, p.Attempt = c.Thread, c.Run, c.Attempt
	o := op{name: "flush", rank: rankPlain, size: len(p.Text), threads: []string{c.Thread}, runs: []string{c.Run}}
	_, err := run(ctx, l, o, func(b *batch) (struct{}, error) {
		return struct{}{}, b.thread(c.Thread).Flush(c, p)
	})
	return err
}

// MarkSteersRead marks the steered messages that no step covers yet as read.
func (l *Ledger) MarkSteersRead(ctx context.Context, c mailroom.Claim) ([]mailroom.Input, error) {
	o := op{name: "steered", rank: rankPlain, threads: []string{c.Thread}, runs: []string{c.Run}}
	return run(ctx, l, o, func(b *batch) ([]mailroom.Input, error) {
		return b.thread(c.Thread).ReadSteers(c, b.now)
	})
}

// ReadSteered returns the messages that Steered marks, as far as they stand behind
// the entry after. last is the seq of the last one, or after.
func (l *Ledger) ReadSteered(ctx context.Context, c mailroom.Claim, after int64) (messages []mailroom.Message, last int64, err error) {
	inputs, err := l.MarkSteersRead(ctx, c)
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
	if messages, err = l.Messages(ctx, c.Thread, seqs); err != nil {
		return nil, after, err
	}
	return messages, last, nil
}

// Settle ends an attempt and returns the run as it is then. A repeat of the same
// settle answers with the same.
func (l *Ledger) Settle(ctx context.Context, s mailroom.Settle) (*mailroom.Run, error) {
	return l.SettleWith(ctx, s, nil)
}

// SettleWith is Settle for a [Claimer], which has room for another run then:
// begun is called when the settle is in a batch, before the takers are asked for
// it. So the room is filled in the commit that settles, and not before the
// thread itself can be due again. begun must be quick and not call the ledger.
func (l *Ledger) SettleWith(ctx context.Context, s mailroom.Settle, begun func()) (*mailroom.Run, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	o := op{name: "settle", rank: rankPlain, onBatch: begun, threads: []string{s.Thread}, runs: []string{s.Run}}
	return run(ctx, l, o, func(b *batch) (*mailroom.Run, error) {
		t := b.thread(s.Thread)
		if err := b.ensure(t, mailroom.ScopeHead); err != nil {
			return nil, err
		}
		in := s
		if r := t.Run(s.Run); in.Message == nil && r != nil && r.Flushed {
			stored, err := b.tx.Partials(s.Run)
			if err != nil {
				return nil, err
			}
			in.Message = t.PartialText(s.Run, stored) // a message once begun ends in an entry
		}
		r, err := t.Settle(&in, b.now)
		return copyRun(r), err
	})
}

// copyRun takes a run out of a batch, whose later operations may change it.
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
