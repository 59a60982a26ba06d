package worker

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/bus"
	"mailroom/entry"
	"mailroom/store"
	"mailroom/thread"
)

// Inputs implements engine.Runs.
func (l *Ledger) Inputs(ctx context.Context, runs []*mailroom.Run) ([][]mailroom.Message, error) {
	out := make([][]mailroom.Message, len(runs))
	for i, r := range runs {
		found, err := retryRead(ctx, l, func(ctx context.Context) ([]mailroom.Message, error) {
			return l.client.Work.Input(ctx, claimOf(r))
		})
		if err != nil {
			return nil, err
		}
		out[i] = found
	}
	return out, nil
}

func claimOf(r *mailroom.Run) mailroom.Claim {
	return mailroom.Claim{Thread: r.Thread, Run: r.ID, Attempt: r.Attempt}
}

// ClaimedRun implements engine.Runs.
func (l *Ledger) ClaimedRun(ctx context.Context, c mailroom.Claim) (*mailroom.Run, error) {
	out, err := retryRead(ctx, l, func(ctx context.Context) (api.ClaimedRun, error) { return l.client.Work.Run(ctx, c) })
	if err != nil {
		return nil, err
	}
	return out.Mailroom(), nil
}

// maxTranscript is the longest transcript that a server returns, in messages.
const maxTranscript = 10_000

// TranscriptBefore implements engine.Runs.
func (l *Ledger) TranscriptBefore(ctx context.Context, run *mailroom.Run, limit int) ([]mailroom.Message, error) {
	return retryRead(ctx, l, func(ctx context.Context) ([]mailroom.Message, error) {
		return l.client.Work.Transcript(ctx, claimOf(run), min(limit, maxTranscript))
	})
}

// maxLog is the longest page of a log that a server returns, in entries.
const maxLog = 1000

// LogOf implements engine.Runs.
func (l *Ledger) LogOf(ctx context.Context, run *mailroom.Run, q mailroom.LogQuery) ([]mailroom.Entry, int64, error) {
	q.Limit = min(q.Limit, maxLog)
	page, err := retryRead(ctx, l, func(ctx context.Context) (api.Page[mailroom.Entry], error) {
		return l.client.Work.Log(ctx, claimOf(run), q)
	})
	if err != nil || page.Next == nil {
		return page.Items, 0, err
	}
	next, err := strconv.ParseInt(*page.Next, 10, 64)
	if err != nil || next < 1 {
		return nil, 0, mailroom.Errorf(mailroom.CodeInternal, "the server names an unknown page %q of a log", *page.Next)
	}
	return page.Items, next, nil
}

// Tickets implements engine.Runs. It supports only queries for the tickets of runs that this worker holds.
func (l *Ledger) Tickets(ctx context.Context, q store.TicketQuery) ([]*mailroom.Ticket, error) {
	var out []*mailroom.Ticket
	for _, run := range q.Runs {
		l.mu.Lock()
		h := l.held[run]
		l.mu.Unlock()
		if h == nil {
			return nil, mailroom.Errorf(mailroom.CodeLeaseLost, "run %s is not held", run)
		}
		found, err := retryRead(ctx, l,
			func(ctx context.Context) ([]api.Ticket, error) { return l.client.Work.Tickets(ctx, h.claim) })
		if err != nil {
			return nil, err
		}
		for _, k := range found {
			out = append(out, k.Ticket())
		}
	}
	return out, nil
}

// Effects implements engine.Runs.
func (l *Ledger) Effects(ctx context.Context, run *mailroom.Run) (map[string]*entry.EffectState, error) {
	found, err := retryRead(ctx, l,
		func(ctx context.Context) ([]api.Effect, error) { return l.client.Work.Effects(ctx, claimOf(run)) })
	if err != nil {
		return nil, err
	}
	states := map[string]*entry.EffectState{}
	for _, e := range found {
		states[e.Name] = &entry.EffectState{EffectEntry: e.EffectEntry, Tries: e.Tries, Attempt: e.Attempt,
			Last: e.Last}
	}
	return states, nil
}

// ReadSteered implements engine.Runs.
func (l *Ledger) ReadSteered(ctx context.Context, c mailroom.Claim, after int64) ([]mailroom.Message, int64, error) {
	out, err := retryRead(ctx, l,
		func(ctx context.Context) (api.HandedOver, error) { return l.client.Work.HandOver(ctx, c, after) })
	if err != nil {
		return nil, after, err
	}
	return out.Messages, out.Last, nil
}

// Append implements engine.Runs.
func (l *Ledger) Append(ctx context.Context, a thread.StepCommit) (thread.Appended, error) {
	if err := a.Check(); err != nil { // an error of the encoder would not say what is wrong
		return thread.Appended{}, err
	}
	in := api.StepCommit{
		Number: a.Number, Step: api.FormatStep(a.Step), Message: api.FormatPartialText(a.Message),
		Covers: a.Covers, Effects: api.FormatAgentEntries(a.Effects),
	}
	for _, b := range a.Blobs {
		in.Step.Blobs = append(in.Step.Blobs, api.BlobChange(b))
	}
	out, err := l.client.Work.Append(ctx, a.Claim, in)
	if in.Step.Extend != "" && refusesExtend(err) {
		in.Step.Extend = ""
		out, err = l.client.Work.Append(ctx, a.Claim, in)
	}
	if err := l.onAnswer(err); err != nil {
		return thread.Appended{}, err
	}
	l.forwardOrders(a.Claim, out.Orders)
	done := thread.Appended{Seq: out.Seq, Left: time.Duration(out.DeadlineMS) * time.Millisecond,
		Budget: out.BudgetLeft.Read()}
	if out.Stop != nil {
		done.Stop = *out.Stop
	}
	return done, nil
}

// refusesExtend reports whether err is the refusal of an older server that does not know the field extend. A worker
// sends no value that a newer server would refuse. Without the field, the attempt ends at its first deadline.
func refusesExtend(err error) bool {
	e, ok := errors.AsType[*mailroom.Error](err)
	return ok && e.Code == mailroom.CodeInvalid &&
		slices.ContainsFunc(e.Fields, func(f mailroom.Field) bool { return f.Location == "body.step.extend" })
}

// Flush implements engine.Runs.
func (l *Ledger) Flush(ctx context.Context, c mailroom.Claim, p store.Partial) error {
	out, err := l.client.Work.Write(ctx, c, api.Text{Message: p.Message, Offset: p.Offset, Text: p.Text})
	if err := l.onAnswer(err); err != nil {
		return err
	}
	l.forwardOrders(c, out.Orders)
	return nil
}

// SettleWith implements engine.Runs.
func (l *Ledger) SettleWith(ctx context.Context, s thread.Settle, begun func()) (*mailroom.Run, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	if h := l.held[s.Run]; h != nil && h.claim == s.Claim {
		delete(l.held, s.Run)
	}
	l.mu.Unlock()
	in := api.Settle{
		Number: s.Number, Outcome: s.Outcome, Message: api.FormatPartialText(s.Message),
		Failure: api.FormatFailure(s.Failure),
		Tickets: api.FormatAsks(s.Asks), Forced: s.Forced, Entered: s.Entered, Wait: (*api.WaitFor)(s.Wait),
	}
	out, err := l.client.Work.Settle(ctx, s.Claim, in)
	err = l.onAnswer(err)
	if err == nil || mailroom.CodeOf(err) == mailroom.CodeLeaseLost {
		l.forget(s.Claim)
	}
	if begun != nil && !retryable(err) {
		begun() // only after the settle, because the next claim may be of the same thread
		l.AskClaimers()
	}
	if err != nil {
		return nil, err
	}
	return api.Claim{Run: out}.Mailroom(), nil
}

// forget records that the server no longer has the claim.
func (l *Ledger) forget(c mailroom.Claim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.entered[c.Run] == api.ClaimID(c) {
		delete(l.entered, c.Run)
	}
}

// forwardOrders publishes the orders in an answer of the server on the bus. Inside the server, the engine gets the
// same hints from commits.
func (l *Ledger) forwardOrders(c mailroom.Claim, o api.Orders) {
	if o.Steered {
		l.hint(c, entry.KindMessage)
	}
	if o.Stop == nil {
		return
	}
	l.mu.Lock()
	h := l.held[c.Run]
	first := h != nil && h.claim == c && !h.stopped
	if first {
		h.stopped = true
	}
	l.mu.Unlock()
	if first {
		l.hint(c, entry.KindStop)
	}
}

func (l *Ledger) hint(c mailroom.Claim, kind string) {
	l.bus.Publish(bus.Notice{Thread: c.Thread, Entries: []mailroom.Entry{{Thread: c.Thread, Run: c.Run, Kind: kind}}})
}
