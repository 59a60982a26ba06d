package workers

import (
	"context"
	"slices"

	"mailroom"
	"mailroom/api"
	"mailroom/entry"
	"mailroom/server/internal/request"
	"mailroom/store"
	"mailroom/thread"
)

// ClaimPath is the claim in a path.
type ClaimPath struct {
	Claim string `path:"claim" doc:"The claim id, RUN:ATTEMPT."`
}

// claimState is a claim that a worker of the caller's token holds or held.
type claimState struct {
	mailroom.Claim
	run  *mailroom.Run
	live bool // the worker still holds the claim
}

// findClaim returns a claim of one of the caller's own workers; a claim of another token is not
// found. more, unless nil, runs in the same view.
func (ops *Operations) findClaim(
	ctx context.Context, p ClaimPath, more func(rd store.Reader, h *claimState) error,
) (*claimState, error) {
	who := request.CallerOf(ctx)
	var out *claimState
	none := mailroom.Errorf(mailroom.CodeNotFound, "no claim %q of a worker of this token: stop working on it",
		request.Truncate(p.Claim))
	c, ok := api.ParseClaim(p.Claim)
	if !ok {
		return nil, none
	}
	err := ops.options.Leases.View(ctx, func(rd store.Reader) error {
		out = nil
		runs, err := rd.Runs(store.RunQuery{IDs: []string{c.Run}})
		if err != nil || len(runs) == 0 {
			return err
		}
		c.Thread = runs[0].Thread
		h := &claimState{Claim: c, run: runs[0]}
		worker, err := h.findWorker(rd)
		if err != nil || worker == "" {
			return err
		}
		w, err := ownWorker(rd, who, worker)
		if err != nil || w == nil {
			return err
		}
		out = h
		if more == nil {
			return nil
		}
		return more(rd, h)
	})
	if err == nil && out == nil {
		err = none
	}
	return out, err
}

// findWorker finds the worker of the claim: in the thread's row while the claim is held, later in
// the entry that started the attempt.
func (h *claimState) findWorker(rd store.Reader) (worker string, err error) {
	threads, err := rd.Threads(store.ThreadQuery{IDs: []string{h.Thread}})
	if err != nil || len(threads) == 0 {
		return "", err
	}
	t := threads[0]
	if t.Current == h.Run && t.Worker != "" && h.run.Attempt == h.Attempt {
		h.live = true
		return t.Worker, nil
	}
	if h.Attempt > h.run.Attempt {
		return "", nil
	}
	begun, err := rd.Entries(store.EntryQuery{
		Thread: h.Thread, After: h.run.FirstSeq, Run: h.Run, Kinds: []string{entry.KindStarted, entry.KindResumed},
	})
	for _, e := range begun {
		if e.Attempt != h.Attempt {
			continue
		}
		var body entry.RunStarted
		err := e.Decode(&body)
		return body.Worker, err
	}
	return "", err
}

// findLiveClaim is findClaim for reads and live text, which need a claim that is still held.
func (ops *Operations) findLiveClaim(
	ctx context.Context, p ClaimPath, more func(rd store.Reader, h *claimState) error,
) (*claimState, error) {
	return ops.findClaim(ctx, p, func(rd store.Reader, h *claimState) error {
		if !h.live {
			return mailroom.Errorf(mailroom.CodeLeaseLost, "attempt %d no longer holds run %s", h.Attempt, h.Run)
		}
		if more == nil {
			return nil
		}
		return more(rd, h)
	})
}

// orders returns the orders for the worker: to stop the run, or to read steered messages. The server adds them to every
// response about the claim.
func (h *claimState) orders() api.Orders {
	if !h.live {
		return api.Orders{}
	}
	return api.Orders{
		Stop:    request.Given(h.run.Stop),
		Steered: slices.ContainsFunc(h.run.Steers, func(s mailroom.Steer) bool { return !s.Read && !s.Retracted }),
	}
}

// isRepeat reports whether the last step or settle under the claim had this number.
func (h *claimState) isRepeat(number int) bool {
	return h.run.LastStep.Attempt == h.Attempt && h.run.LastStep.Step == number
}

// messagePage is how many messages of a run are read at a time, to find the agent's last one among
// those of users.
const messagePage = 32

// countMessages returns how many messages of the attempt are in the log.
func (h *claimState) countMessages(rd store.Reader) (int, error) {
	for before := int64(0); ; {
		page, err := rd.Entries(store.EntryQuery{
			Thread: h.Thread, After: h.run.FirstSeq, Before: before, Run: h.Run,
			Kinds: []string{entry.KindMessage}, Backward: true, Limit: messagePage,
		})
		if err != nil {
			return 0, err
		}
		for _, e := range page {
			var m mailroom.Message
			if err := e.Decode(&m); err != nil {
				return 0, err
			}
			if n, ok := h.messageNumber(m.ID); ok {
				return n, nil
			}
			before = e.Seq
		}
		if len(page) < messagePage {
			return 0, nil
		}
	}
}

// messageID returns the id of the attempt's n-th message.
func (h *claimState) messageID(n int) string { return entry.MessageID(h.Run, h.Attempt, n) }

// messageNumber is the inverse of messageID.
func (h *claimState) messageNumber(id string) (n int, ok bool) {
	return entry.MessageNumber(id, h.Run, h.Attempt)
}

// assignMessageID sets the id of the message that a step or settle writes, or checks the id it has.
// A repeat gets the same id as before.
func (h *claimState) assignMessageID(rd store.Reader, m *thread.PartialText, number int) error {
	if m == nil || !h.live && !h.isRepeat(number) {
		return nil // the ledger refuses it: the claim is lost
	}
	n, err := h.countMessages(rd)
	if err != nil {
		return err
	}
	if !h.isRepeat(number) || n == 0 {
		n++
	}
	id := h.messageID(n)
	if m.ID != "" && m.ID != id {
		return request.Invalid("body.message.id", "is not the id of the message being written, "+id, m.ID)
	}
	m.ID = id
	return nil
}
