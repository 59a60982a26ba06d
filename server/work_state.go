package server

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mailroom"
	"mailroom/api"
)

// ClaimPath is the claim in a path.
type ClaimPath struct {
	Claim string `path:"claim" doc:"RUN:ATTEMPT, as it was claimed."`
}

// claimState is a claim that a request names, which the token's worker has or had.
type claimState struct {
	mailroom.Claim
	run  *mailroom.Run
	live bool // nobody has taken it away
}

// claimState finds what a claim is about, for its own worker alone: a stranger hears
// that there is no such claim. more reads on in the same snapshot.
func (s *Server) findClaim(ctx context.Context, p ClaimPath, more func(rd mailroom.Reader, h *claimState) error) (*claimState, error) {
	who := requestOf(ctx).who
	var out *claimState
	none := mailroom.Errorf(mailroom.CodeNotFound, "no claim %q", truncate(p.Claim))
	c, ok := api.ParseClaim(p.Claim)
	if !ok {
		return nil, none
	}
	err := s.options.Ledger.View(ctx, func(rd mailroom.Reader) error {
		out = nil
		runs, err := rd.Runs(mailroom.RunQuery{IDs: []string{c.Run}})
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

// findWorker finds the worker of the claim: on the row of the thread while it is held,
// and then in the entry that its attempt began with.
func (h *claimState) findWorker(rd mailroom.Reader) (worker string, err error) {
	threads, err := rd.Threads(mailroom.ThreadQuery{IDs: []string{h.Thread}})
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
	begun, err := rd.Entries(mailroom.EntryQuery{
		Thread: h.Thread, After: h.run.FirstSeq, Run: h.Run, Kinds: []string{mailroom.KindStarted, mailroom.KindResumed},
	})
	for _, e := range begun {
		if e.Attempt != h.Attempt {
			continue
		}
		var body mailroom.RunStarted
		err := e.Decode(&body)
		return body.Worker, err
	}
	return "", err
}

// findLiveClaim is hold for who reads, or shows text: nothing may be read under a
// claim that was taken away.
func (s *Server) findLiveClaim(ctx context.Context, p ClaimPath, more func(rd mailroom.Reader, h *claimState) error) (*claimState, error) {
	return s.findClaim(ctx, p, func(rd mailroom.Reader, h *claimState) error {
		if !h.live {
			return mailroom.Errorf(mailroom.CodeLeaseLost, "attempt %d no longer holds run %s", h.Attempt, h.Run)
		}
		if more == nil {
			return nil
		}
		return more(rd, h)
	})
}

// orders are what goes out with every answer about a claim.
func (h *claimState) orders() api.Orders {
	if !h.live {
		return api.Orders{}
	}
	return api.Orders{
		Stop:    given(h.run.Stop),
		Steered: slices.ContainsFunc(h.run.Steers, func(s mailroom.Steer) bool { return !s.Read && !s.Retracted }),
	}
}

// isRepeat reports whether a step or settle of this number was made under the
// claim.
func (h *claimState) isRepeat(number int) bool {
	return h.run.LastStep.Attempt == h.Attempt && h.run.LastStep.Step == number
}

// messagePage is how many messages of a run are read at a time to find its
// agent's last one among what others said.
const messagePage = 32

// countMessages is how many messages of the attempt are in the log.
func (h *claimState) countMessages(rd mailroom.Reader) (int, error) {
	for before := int64(0); ; {
		page, err := rd.Entries(mailroom.EntryQuery{
			Thread: h.Thread, After: h.run.FirstSeq, Before: before, Run: h.Run,
			Kinds: []string{mailroom.KindMessage}, Backward: true, Limit: messagePage,
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

// messageID is the id of the attempt's n-th message.
func (h *claimState) messageID(n int) string { return fmt.Sprintf("%s.%d-%d", h.Run, h.Attempt, n) }

// messageNumber is n for the id of the attempt's n-th message.
func (h *claimState) messageNumber(id string) (n int, ok bool) {
	rest, ok := strings.CutPrefix(id, fmt.Sprintf("%s.%d-", h.Run, h.Attempt))
	n, err := strconv.Atoi(rest)
	return n, ok && err == nil && n > 0 && h.messageID(n) == id
}

// assignMessageID gives a message that is written with a step or settle its id, or checks
// the one it has. A repeat gets the one that was given before.
func (h *claimState) assignMessageID(rd mailroom.Reader, said *mailroom.PartialText, number int) error {
	if said == nil || !h.live && !h.isRepeat(number) {
		return nil // without a claim it is refused
	}
	n, err := h.countMessages(rd)
	if err != nil {
		return err
	}
	if !h.isRepeat(number) || n == 0 {
		n++
	}
	id := h.messageID(n)
	if said.ID != "" && said.ID != id {
		return invalidField("body.message.id", "is not that of the message being written, "+id, said.ID)
	}
	said.ID = id
	return nil
}
