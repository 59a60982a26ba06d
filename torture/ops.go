package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/client"
)

// latestSubmit returns the last answered submit to a thread with a queue, which is likely to be
// unread.
func (h *user) latestSubmit() *operation {
	thread := h.thread()
	for range 5 {
		if h.torture.waiting(thread) > 0 {
			break
		}
		thread = h.thread()
	}
	if list := h.torture.journal.recentSubmits(thread); len(list) > 0 {
		return list[len(list)-1]
	}
	return nil
}

func (h *user) edit() {
	o := h.latestSubmit()
	if o == nil {
		return
	}
	text := fmt.Sprintf("e%d.%d %s", h.torture.journal.next(), h.dice.IntN(1<<30), h.text())
	h.do(&operation{Kind: "edit", Thread: o.Thread, Message: o.Message, Text: text}, func(ctx context.Context) error {
		_, err := h.client.EditMessage(ctx, o.Thread, o.Message, api.Edit{Text: text})
		return err
	})
}

func (h *user) retract() {
	o := h.latestSubmit()
	if o == nil {
		return
	}
	h.do(&operation{Kind: "retract", Thread: o.Thread, Message: o.Message}, func(ctx context.Context) error {
		return h.client.RetractMessage(ctx, o.Thread, o.Message)
	})
}

func (h *user) cancel() {
	o := h.recentSubmit()
	if o == nil {
		return
	}
	call, kind := h.client.CancelRun, "cancel"
	if h.dice.IntN(4) == 0 {
		call, kind = h.client.CancelTree, "cancel tree"
	}
	h.onRun(kind, o, func(ctx context.Context) (api.Run, error) { return call(ctx, o.Run) })
}

func (h *user) retry() {
	o := h.recentSubmit()
	if o == nil {
		return
	}
	fresh := h.dice.IntN(4) == 0
	h.onRun("retry", o, func(ctx context.Context) (api.Run, error) {
		return h.client.RetryRun(ctx, o.Run, api.Retry{Fresh: fresh})
	})
}

// wait waits briefly for a run, or follows the run to its end, as clients do.
func (h *user) wait(ctx context.Context) {
	o := h.recentSubmit()
	if o == nil {
		return
	}
	h.onRun("wait", o, func(context.Context) (api.Run, error) {
		ctx, cancel := context.WithTimeout(ctx, waitTimeout) // bounded, also beyond the load
		defer cancel()
		return h.client.WaitRun(ctx, o.Run, time.Duration(h.dice.IntN(80)+1)*time.Millisecond)
	})
}

func (h *user) onRun(kind string, of *operation, call func(ctx context.Context) (api.Run, error)) {
	o := &operation{Kind: kind, Thread: of.Thread, Run: of.Run}
	h.do(o, func(ctx context.Context) error {
		run, err := call(ctx)
		if err == nil {
			o.State = &run
		}
		return err
	})
}

func (h *user) interrupt() {
	o := &operation{Kind: "interrupt", Thread: h.thread()}
	h.do(o, func(ctx context.Context) error {
		out, err := h.client.Interrupt(ctx, o.Thread)
		if err == nil {
			o.Interrupted = &out
		}
		return err
	})
}

// read reads a thread's row. The history check later shows whether the row fits the operations before and after.
func (h *user) read() {
	o := &operation{Kind: "read", Thread: h.thread()}
	h.do(o, func(ctx context.Context) error {
		row, err := h.client.Thread(ctx, o.Thread)
		if err == nil {
			o.Row = &row
		}
		return err
	})
}

func (h *user) list() {
	calls := []func(ctx context.Context) error{
		func(ctx context.Context) error {
			_, err := h.client.Runs(ctx, client.ListQuery{Q: "status:failed", Limit: 20})
			return err
		},
		func(ctx context.Context) error {
			_, err := h.client.Messages(ctx, h.thread(), client.MessagesQuery{Limit: 30, All: h.dice.IntN(2) == 0})
			return err
		},
		func(ctx context.Context) error { _, err := h.client.Stats(ctx); return err },
		func(ctx context.Context) error { _, err := h.client.Workers(ctx); return err },
	}
	h.do(&operation{Kind: "list"}, pick(h, calls))
}

// deleteThread creates a thread, waits for its run, and deletes it.
func (h *user) deleteThread(ctx context.Context) {
	thread := fmt.Sprintf("gone-%d-%d", h.journalNext(), h.dice.IntN(1<<20))
	in := &api.Submit{Thread: thread, Text: "brief " + thread, Key: "k-" + thread}
	o := h.send(&operation{Kind: "brief", Thread: thread, Submit: in})
	if o.Outcome != done {
		return
	}
	h.onRun("wait", o, func(context.Context) (api.Run, error) {
		ctx, cancel := context.WithTimeout(ctx, waitTimeout)
		defer cancel()
		return h.client.WaitRun(ctx, o.Run, 2*time.Second)
	})
	h.do(&operation{Kind: "delete", Thread: thread}, func(ctx context.Context) error {
		return h.client.DeleteThread(ctx, thread)
	})
}

func (h *user) journalNext() int { return h.torture.journal.next() }

// decideLoop decides open tickets until ctx ends. It decides some of them twice in different ways, of which only one
// may succeed. If all is set, it decides every ticket, each once.
func (h *user) decideLoop(ctx context.Context, all bool) {
	for ctx.Err() == nil {
		page, err := h.client.Tickets(ctx, client.ListQuery{Q: "state:open", Limit: 200})
		if err == nil {
			for _, k := range page.Items {
				if ctx.Err() == nil && (all || h.dice.IntN(3) == 0) {
					h.decide(k, all)
				}
			}
		}
		pause(ctx, time.Duration(20+h.dice.IntN(60))*time.Millisecond)
	}
}

func (h *user) decide(k api.Ticket, all bool) {
	if k.Kind != mailroom.TicketApproval && k.Kind != mailroom.TicketInput {
		return
	}
	first := h.randomDecision(k)
	h.decideOnce(k, first)
	switch n := h.dice.IntN(10); {
	case all:
	case n == 0:
		h.decideOnce(k, first)
	case n == 1:
		h.decideOnce(k, h.randomDecision(k))
	}
}

func (h *user) randomDecision(k api.Ticket) api.Decision {
	answer := json.RawMessage(fmt.Sprintf(`{"answer":%d}`, h.dice.IntN(1<<30)))
	n := h.dice.IntN(10)
	switch {
	case k.Kind == mailroom.TicketInput, k.Answers && n < 2:
		return api.Decision{Decision: mailroom.VerdictAnswer, Answer: answer}
	case n < 4:
		return api.Decision{Decision: mailroom.VerdictDeny, Reason: "no"}
	}
	return api.Decision{Decision: mailroom.VerdictApprove, Digest: k.Digest}
}

func (h *user) decideOnce(k api.Ticket, d api.Decision) {
	o := &operation{Kind: "decide", Thread: k.Thread, Run: k.Run, Ticket: k.ID, Verdict: verdict(d.Decision, d.Answer)}
	h.do(o, func(ctx context.Context) error {
		_, err := h.client.Decide(ctx, k.ID, d)
		return err
	})
}

// verdict formats a decision as one word for comparison with the log.
func verdict(v mailroom.Verdict, answer json.RawMessage) string {
	if len(answer) == 0 || string(answer) == "null" {
		return string(v)
	}
	return string(v) + " " + string(answer)
}

// decideWithSubmit decides a ticket in the transaction of a submit.
func (h *user) decideWithSubmit(ctx context.Context) {
	page, err := h.client.Tickets(ctx, client.ListQuery{Q: "state:open kind:approval", Limit: 20})
	if err != nil || len(page.Items) == 0 {
		return
	}
	k := pick(h, page.Items)
	d := h.randomDecision(k)
	in := &api.Submit{
		Thread: k.Thread, Text: fmt.Sprintf("m%d.%d with a decision", h.torture.journal.next(), h.dice.IntN(1<<30)),
		Key: fmt.Sprintf("k%d-%d", h.torture.journal.next(), h.dice.Int()),
		Decisions: []api.SubmitDecision{
			{Ticket: k.ID, Decision: d.Decision, Answer: d.Answer, Reason: d.Reason, Digest: d.Digest},
		},
	}
	h.send(&operation{
		Kind: "submit", Thread: k.Thread, Text: in.Text, Submit: in, Ticket: k.ID, Verdict: verdict(d.Decision, d.Answer),
	})
}
