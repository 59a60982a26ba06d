package server

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/entry"
	"mailroom/internal/thread"
	"mailroom/store"
)

// Attempts is the part of a Ledger for claimed runs.
type Attempts interface {
	Inputs(ctx context.Context, runs []*mailroom.Run) ([][]mailroom.Message, error)
	TranscriptBefore(ctx context.Context, run *mailroom.Run, limit int) ([]mailroom.Message, error)
	Effects(ctx context.Context, run *mailroom.Run) (map[string]*entry.EffectState, error)
	ReadSteered(ctx context.Context, c mailroom.Claim, after int64) ([]mailroom.Message, int64, error)
	Append(ctx context.Context, a thread.StepCommit) (seq int64, err error)
	Flush(ctx context.Context, c mailroom.Claim, p store.Partial) error
	Settle(ctx context.Context, s thread.Settle) (*mailroom.Run, error)
}

// registerClaims registers the operations under a claim.
func (rt router) registerClaims() {
	s := rt.server
	handle(rt, rt.operation(auth.PermissionWork, "POST /v1/claims/{claim}/entries", "append", "Commit one step of a claimed run"), s.append)
	handle(rt, rt.operation(auth.PermissionWork, "POST /v1/claims/{claim}/deltas", "write", "Show and store a piece of the message that a claimed run is writing"), s.write)
	handle(rt, rt.operation(auth.PermissionWork, "POST /v1/claims/{claim}/settle", "settle", "End the attempt of a claimed run"), s.settle)
	handle(rt, rt.operation(auth.PermissionWork, "POST /v1/claims/{claim}/steered", "hand-over", "Read the messages steered into a claimed run"), s.handOver)
	handle(rt, rt.operation(auth.PermissionWork, "GET /v1/claims/{claim}/run", "get-claimed-run", "Get a claimed run"), s.claimedRun)
	handle(rt, rt.operation(auth.PermissionWork, "GET /v1/claims/{claim}/input", "get-claimed-input", "List the input messages of a claimed run"), s.claimedInput)
	handle(rt, rt.operation(auth.PermissionWork, "GET /v1/claims/{claim}/transcript", "get-claimed-transcript", "List the last messages of the transcript before a claimed run's input"), s.claimedTranscript)
	handle(rt, rt.operation(auth.PermissionWork, "GET /v1/claims/{claim}/tickets", "get-claimed-tickets", "List the tickets of a claimed run"), s.claimedTickets)
	handle(rt, rt.operation(auth.PermissionWork, "GET /v1/claims/{claim}/effects", "get-claimed-effects", "List the named effects of a claimed run"), s.claimedEffects)
}

type appendInput struct {
	ClaimPath
	Body api.StepCommit
}

func (s *Server) append(ctx context.Context, in *appendInput) (*body[api.Appended], error) {
	step, err := in.Body.Step.Read("body.step")
	if err != nil {
		return nil, err
	}
	a := thread.StepCommit{Number: in.Body.Number, Step: step, Message: in.Body.Message.Read(), Covers: in.Body.Covers}
	h, err := s.findClaim(ctx, in.ClaimPath, func(rd store.Reader, h *claimState) error { return h.assignMessageID(rd, a.Message, a.Number) })
	if err != nil {
		return nil, err
	}
	a.Claim = h.Claim
	if a.Effects, err = s.readEffects(ctx, h, in.Body); err != nil {
		return nil, err
	}
	seq, err := s.options.Ledger.Append(ctx, a)
	if err != nil {
		return nil, atLocation("body.step.", err)
	}
	return &body[api.Appended]{api.Appended{Orders: h.orders(), Seq: seq}}, nil
}

// readEffects validates the effect entries of a step. In-process agents write them through a
// Session only; this refuses what a Session would not write.
func (s *Server) readEffects(ctx context.Context, h *claimState, in api.StepCommit) ([]mailroom.AgentEntry, error) {
	if len(in.Effects) == 0 {
		return nil, nil
	}
	known := map[string]*entry.EffectState{}
	if !h.isRepeat(in.Number) {
		var err error
		if known, err = s.options.Ledger.Effects(ctx, h.run); err != nil {
			return nil, err
		}
	}
	var notes []mailroom.AgentEntry
	for i, n := range in.Effects {
		at := fmt.Sprintf("body.effects[%d]", i)
		body, err := readEffect(h.Run, n)
		if err != nil {
			return nil, atLocation(at+".", err)
		}
		switch old := known[body.Name]; {
		case old == nil:
		case old.Input != body.Input:
			return nil, mailroom.Errorf(mailroom.CodeConflict, "effect %q was started with different input", body.Name)
		case old.Last == entry.KindEffectSettled && !old.Failed():
			return nil, mailroom.Errorf(mailroom.CodeConflict, "effect %q is already settled", body.Name)
		}
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode effect %q: %w", body.Name, err)
		}
		notes = append(notes, mailroom.AgentEntry{Kind: n.Kind, Body: raw})
	}
	return notes, nil
}

func readEffect(run string, n api.AgentEntry) (out entry.EffectEntry, err error) {
	switch n.Kind {
	case entry.KindEffectIntended, entry.KindEffectSettled, entry.KindEffectUnknown:
	default:
		return out, invalidField("kind", "must be effect.intended, effect.settled or effect.unknown", n.Kind)
	}
	dec := json.NewDecoder(strings.NewReader(string(n.Body)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&out); err != nil {
		return out, invalidField("body", "must be an object with name, input, result, cut and error: "+truncate(err.Error()), nil)
	}
	own, err := entry.NewEffect(run, mailroom.Effect{Name: out.Name})
	switch {
	case err != nil:
		return out, atLocation("body.", err)
	case out.Effect != "" && out.Effect != own.Effect, out.Key != "" && out.Key != own.Key:
		return out, invalidField("body.effect", "does not match the name: leave effect and key out", nil)
	case len(out.Result) > mailroom.MaxEffect:
		return out, invalidField("body.result", fmt.Sprintf("exceeds %d bytes: leave it out and set cut", mailroom.MaxEffect), nil)
	case !plainText(out.Input) || !plainText(out.Error):
		return out, invalidField("body", "must have text without NUL", nil)
	}
	out.Effect, out.Key = own.Effect, own.Key
	return out, nil
}

func plainText(s string) bool { return strings.IndexByte(s, 0) < 0 }

type settleInput struct {
	ClaimPath
	Body api.Settle
}

func (s *Server) settle(ctx context.Context, in *settleInput) (*body[api.Run], error) {
	b := in.Body
	out := thread.Settle{
		Number: b.Number, Outcome: b.Outcome, Message: b.Message.Read(), Wait: (*mailroom.Wait)(b.Wait),
		Jitter: rand.Float64(), Forced: b.Forced,
	}
	var err error
	switch {
	case b.Text != "" && b.Message != nil:
		return nil, invalidField("body.text", "cannot be combined with message: send one of them", nil)
	case b.Text != "":
		out.Message = &thread.PartialText{Text: b.Text}
	}
	if out.Failure, err = b.Failure.Read("body.failure"); err != nil {
		return nil, err
	}
	if out.Asks, err = api.ReadAsks("body.tickets", b.Tickets); err != nil {
		return nil, err
	}
	h, err := s.findClaim(ctx, in.ClaimPath, func(rd store.Reader, h *claimState) error { return h.assignMessageID(rd, out.Message, out.Number) })
	if err != nil {
		return nil, err
	}
	out.Claim = h.Claim
	row, err := s.options.Ledger.Settle(ctx, out)
	if err != nil {
		return nil, atLocation("body.", err)
	}
	run, err := s.showResult(ctx, row)
	return &body[api.Run]{run}, err
}

type handOverInput struct {
	ClaimPath
	Body *api.HandOver
}

func (s *Server) handOver(ctx context.Context, in *handOverInput) (*body[api.HandedOver], error) {
	h, err := s.findClaim(ctx, in.ClaimPath, nil)
	if err != nil {
		return nil, err
	}
	after := int64(0)
	if in.Body != nil {
		after = in.Body.After
	}
	messages, last, err := s.options.Ledger.ReadSteered(ctx, h.Claim, after)
	if messages == nil {
		messages = []mailroom.Message{}
	}
	return &body[api.HandedOver]{api.HandedOver{Messages: messages, Last: last}}, err
}

type claimedInput struct{ ClaimPath }

func (s *Server) claimedRun(ctx context.Context, in *claimedInput) (*body[api.ClaimedRun], error) {
	var out api.ClaimedRun
	h, err := s.findLiveClaim(ctx, in.ClaimPath, func(rd store.Reader, h *claimState) error {
		shown, err := showRuns(rd, []*mailroom.Run{h.run})
		if err == nil {
			out.Run = shown[0]
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	out.Orders, out.Steers = h.orders(), showSteers(h.run)
	return &body[api.ClaimedRun]{out}, nil
}

// onePage returns a list as a single page.
func onePage[T any](items []T) *body[api.Page[T]] {
	if items == nil {
		items = []T{}
	}
	return &body[api.Page[T]]{api.Page[T]{Items: items}}
}

func (s *Server) claimedInput(ctx context.Context, in *claimedInput) (*body[api.Page[mailroom.Message]], error) {
	h, err := s.findLiveClaim(ctx, in.ClaimPath, nil)
	if err != nil {
		return nil, err
	}
	inputs, err := s.options.Ledger.Inputs(ctx, []*mailroom.Run{h.run})
	if err != nil {
		return nil, err
	}
	return onePage(inputs[0]), nil
}

type claimedTranscriptInput struct {
	ClaimPath
	Limit int `query:"limit" minimum:"1" maximum:"10000" default:"100"`
}

func (s *Server) claimedTranscript(ctx context.Context, in *claimedTranscriptInput) (*body[api.Page[mailroom.Message]], error) {
	h, err := s.findLiveClaim(ctx, in.ClaimPath, nil)
	if err != nil {
		return nil, err
	}
	items, err := s.options.Ledger.TranscriptBefore(ctx, h.run, in.Limit)
	return onePage(items), err
}

func (s *Server) claimedTickets(ctx context.Context, in *claimedInput) (*body[api.Page[api.Ticket]], error) {
	var tickets map[string][]api.Ticket
	h, err := s.findLiveClaim(ctx, in.ClaimPath, func(rd store.Reader, h *claimState) (err error) {
		tickets, err = readTickets(rd, []*mailroom.Run{h.run})
		return err
	})
	if err != nil {
		return nil, err
	}
	return onePage(tickets[h.Run]), nil
}

func (s *Server) claimedEffects(ctx context.Context, in *claimedInput) (*body[api.Page[api.Effect]], error) {
	h, err := s.findLiveClaim(ctx, in.ClaimPath, nil)
	if err != nil {
		return nil, err
	}
	states, err := s.options.Ledger.Effects(ctx, h.run)
	if err != nil {
		return nil, err
	}
	return onePage(showEffects(states)), nil
}
