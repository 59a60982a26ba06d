package workers

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"

	"mailroom"
	"mailroom/api"
	"mailroom/entry"
	"mailroom/server/internal/request"
	"mailroom/store"
	"mailroom/thread"
)

// Attempts is the part of a ledger for claimed runs.
type Attempts interface {
	Inputs(ctx context.Context, runs []*mailroom.Run) ([][]mailroom.Message, error)
	TranscriptBefore(ctx context.Context, run *mailroom.Run, limit int) ([]mailroom.Message, error)
	LogOf(ctx context.Context, run *mailroom.Run, q mailroom.LogQuery) ([]mailroom.Entry, int64, error)
	Effects(ctx context.Context, run *mailroom.Run) (map[string]*entry.EffectState, error)
	ReadSteered(ctx context.Context, c mailroom.Claim, after int64) ([]mailroom.Message, int64, error)
	Append(ctx context.Context, a thread.StepCommit) (thread.Appended, error)
	Flush(ctx context.Context, c mailroom.Claim, p store.Partial) error
	Settle(ctx context.Context, s thread.Settle) (*mailroom.Run, error)
	// Upload stores content for a step. The Name of the result is the Upload of a [thread.BlobChange].
	Upload(ctx context.Context, c mailroom.Claim, content io.Reader) (mailroom.Blob, error)
	ListBlobs(ctx context.Context, run *mailroom.Run, prefix, after string) ([]mailroom.Blob, error)
	// OpenBlob returns a blob and its content, which is nil without such a blob.
	OpenBlob(ctx context.Context, run *mailroom.Run, name string) (mailroom.Blob, io.Reader, error)
}

type appendInput struct {
	ClaimPath
	Body api.StepCommit
}

// Append commits one step of a claimed run.
func (ops *Operations) Append(ctx context.Context, in *appendInput) (*Body[api.Appended], error) {
	step, err := in.Body.Step.Read("body.step")
	if err != nil {
		return nil, err
	}
	a := thread.StepCommit{Number: in.Body.Number, Step: step, Message: in.Body.Message.Read(), Covers: in.Body.Covers,
		Blobs: api.ReadBlobChanges(in.Body.Step.Blobs)}
	h, err := ops.findClaim(ctx, in.ClaimPath, func(rd store.Reader, h *claimState) error {
		return h.assignMessageID(rd, a.Message, a.Number)
	})
	if err != nil {
		return nil, err
	}
	a.Claim = h.Claim
	if a.Effects, err = ops.readEffects(ctx, h, in.Body); err != nil {
		return nil, err
	}
	done, err := ops.options.Attempts.Append(ctx, a)
	if err != nil {
		return nil, request.Locate("body.step.", err)
	}
	out := api.Appended{Orders: h.orders(), Seq: done.Seq, DeadlineMS: done.Left.Milliseconds()}
	if done.Stop != "" {
		out.Stop = &done.Stop
	}
	if done.Budget != nil {
		out.BudgetLeft = api.FormatLeft(*done.Limit, done.Budget)
	}
	return &Body[api.Appended]{out}, nil
}

// readEffects validates the effect entries of a step. In-process agents write them through a
// Session only; this refuses what a Session would not write.
func (ops *Operations) readEffects(
	ctx context.Context, h *claimState, in api.StepCommit,
) ([]mailroom.AgentEntry, error) {
	if len(in.Effects) == 0 {
		return nil, nil
	}
	known := map[string]*entry.EffectState{}
	if !h.isRepeat(in.Number) {
		var err error
		if known, err = ops.options.Attempts.Effects(ctx, h.run); err != nil {
			return nil, err
		}
	}
	var notes []mailroom.AgentEntry
	for i, n := range in.Effects {
		at := fmt.Sprintf("body.effects[%d]", i)
		body, err := readEffect(h.Run, n)
		if err != nil {
			return nil, request.Locate(at+".", err)
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
		return out, request.Invalid("kind", "must be effect.intended, effect.settled or effect.unknown", n.Kind)
	}
	var in struct {
		*entry.EffectEntry
		Input json.RawMessage `json:"input"`
	}
	in.EffectEntry = &out
	dec := json.NewDecoder(strings.NewReader(string(n.Body)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&in); err != nil {
		return out, request.Invalid("body", "must be an object with name, input, result, cut and error: "+
			request.Truncate(err.Error()), nil)
	}
	if err := readInput(&out, in.Input); err != nil {
		return out, request.Locate("body.", err)
	}
	own, err := entry.NewEffect(run, mailroom.Effect{Name: out.Name})
	switch {
	case err != nil:
		return out, request.Locate("body.", err)
	case out.Effect != "" && out.Effect != own.Effect, out.Key != "" && out.Key != own.Key:
		return out, request.Invalid("body.effect", "does not match the name: leave effect and key out", nil)
	case len(out.Result) > mailroom.MaxEffect:
		return out,
			request.Invalid("body.result", fmt.Sprintf("exceeds %d bytes: leave it out and set cut", mailroom.MaxEffect), nil)
	case !plainText(out.Input) || !plainText(out.Error):
		return out, request.Invalid("body", "must have text without NUL", nil)
	}
	out.Effect, out.Key = own.Effect, own.Key
	return out, nil
}

// readInput sets what the entries record of an effect's input. A string is the digest that the worker has computed. Of
// any other value, the server computes the digest.
func readInput(out *entry.EffectEntry, input json.RawMessage) (err error) {
	if len(input) == 0 || string(input) == "null" || input[0] == '"' {
		if len(input) > 0 {
			err = json.Unmarshal(input, &out.Input)
		}
		return err
	}
	out.Input, err = entry.DigestInput(input)
	return err
}

func plainText(s string) bool { return strings.IndexByte(s, 0) < 0 }

type settleInput struct {
	ClaimPath
	Body api.Settle
}

// Settle ends the attempt of a claimed run.
func (ops *Operations) Settle(ctx context.Context, in *settleInput) (*Body[api.Run], error) {
	b := in.Body
	out := thread.Settle{
		Number: b.Number, Outcome: b.Outcome, Message: b.Message.Read(), Wait: (*mailroom.Wait)(b.Wait),
		Jitter: rand.Float64(), Forced: b.Forced, Entered: b.Entered,
	}
	var err error
	switch {
	case b.Text != "" && b.Message != nil:
		return nil, request.Invalid("body.text", "cannot be combined with message: send one of them", nil)
	case b.Text != "":
		out.Message = &thread.PartialText{Text: b.Text}
	}
	if out.Failure, err = b.Failure.Read("body.failure"); err != nil {
		return nil, err
	}
	if out.Asks, err = api.ReadAsks("body.tickets", b.Tickets); err != nil {
		return nil, err
	}
	h, err := ops.findClaim(ctx, in.ClaimPath, func(rd store.Reader, h *claimState) error {
		return h.assignMessageID(rd, out.Message, out.Number)
	})
	if err != nil {
		return nil, err
	}
	out.Claim = h.Claim
	row, err := ops.options.Attempts.Settle(ctx, out)
	if err != nil {
		return nil, request.Locate("body.", err)
	}
	var shown []api.Run
	err = ops.options.Leases.View(ctx, func(rd store.Reader) (err error) {
		shown, err = request.ShowRuns(rd, []*mailroom.Run{row})
		return err
	})
	if err != nil {
		return nil, err
	}
	return &Body[api.Run]{shown[0]}, nil
}

type handOverInput struct {
	ClaimPath
	Body *api.HandOver
}

// HandOver returns the messages steered into a claimed run.
func (ops *Operations) HandOver(ctx context.Context, in *handOverInput) (*Body[api.HandedOver], error) {
	h, err := ops.findClaim(ctx, in.ClaimPath, nil)
	if err != nil {
		return nil, err
	}
	after := int64(0)
	if in.Body != nil {
		after = in.Body.After
	}
	messages, last, err := ops.options.Attempts.ReadSteered(ctx, h.Claim, after)
	if messages == nil {
		messages = []mailroom.Message{}
	}
	return &Body[api.HandedOver]{api.HandedOver{Messages: messages, Last: last}}, err
}

type claimedInput struct{ ClaimPath }

// Run returns a claimed run.
func (ops *Operations) Run(ctx context.Context, in *claimedInput) (*Body[api.ClaimedRun], error) {
	var out api.ClaimedRun
	h, err := ops.findLiveClaim(ctx, in.ClaimPath, func(rd store.Reader, h *claimState) error {
		shown, err := request.ShowRuns(rd, []*mailroom.Run{h.run})
		if err == nil {
			out.Run = shown[0]
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	out.Orders, out.Steers = h.orders(), showSteers(h.run)
	return &Body[api.ClaimedRun]{out}, nil
}

// onePage returns a list as a single page.
func onePage[T any](items []T) *Body[api.Page[T]] {
	if items == nil {
		items = []T{}
	}
	return &Body[api.Page[T]]{api.Page[T]{Items: items}}
}

// Input lists the input messages of a claimed run.
func (ops *Operations) Input(ctx context.Context, in *claimedInput) (*Body[api.Page[mailroom.Message]], error) {
	h, err := ops.findLiveClaim(ctx, in.ClaimPath, nil)
	if err != nil {
		return nil, err
	}
	inputs, err := ops.options.Attempts.Inputs(ctx, []*mailroom.Run{h.run})
	if err != nil {
		return nil, err
	}
	return onePage(inputs[0]), nil
}

type claimedTranscriptInput struct {
	ClaimPath
	Limit int `query:"limit" minimum:"1" maximum:"10000" default:"100" doc:"Messages at most: the last ones before the input of the run."`
}

// Transcript lists the last messages before a claimed run's input.
func (ops *Operations) Transcript(
	ctx context.Context, in *claimedTranscriptInput,
) (*Body[api.Page[mailroom.Message]], error) {
	h, err := ops.findLiveClaim(ctx, in.ClaimPath, nil)
	if err != nil {
		return nil, err
	}
	items, err := ops.options.Attempts.TranscriptBefore(ctx, h.run, in.Limit)
	return onePage(items), err
}

type claimedLogInput struct {
	ClaimPath
	After  int64    `query:"after" minimum:"0" doc:"Only entries with a greater seq."`
	Before int64    `query:"before" minimum:"0" doc:"Only entries with a smaller seq."`
	Limit  int      `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Entries of the page at most."`
	Kind   []string `query:"kind,explode" doc:"Only these kinds; may be repeated."`
}

// Log lists the last entries of the thread that a claimed run's agent may read. The next of a page is the before of the
// page with older ones.
func (ops *Operations) Log(ctx context.Context, in *claimedLogInput) (*Body[api.Page[mailroom.Entry]], error) {
	h, err := ops.findLiveClaim(ctx, in.ClaimPath, nil)
	if err != nil {
		return nil, err
	}
	items, next, err := ops.options.Attempts.LogOf(ctx, h.run, mailroom.LogQuery{
		Kinds: request.SplitKinds(in.Kind), After: in.After, Before: in.Before, Limit: in.Limit})
	out := onePage(items)
	if next > 0 {
		out.Body.Next = new(strconv.FormatInt(next, 10))
	}
	return out, err
}

// Tickets lists the tickets of a claimed run.
func (ops *Operations) Tickets(ctx context.Context, in *claimedInput) (*Body[api.Page[api.Ticket]], error) {
	var tickets map[string][]api.Ticket
	h, err := ops.findLiveClaim(ctx, in.ClaimPath, func(rd store.Reader, h *claimState) (err error) {
		tickets, err = readTickets(rd, []*mailroom.Run{h.run})
		return err
	})
	if err != nil {
		return nil, err
	}
	return onePage(tickets[h.Run]), nil
}

// Effects lists the named effects of a claimed run.
func (ops *Operations) Effects(ctx context.Context, in *claimedInput) (*Body[api.Page[api.Effect]], error) {
	h, err := ops.findLiveClaim(ctx, in.ClaimPath, nil)
	if err != nil {
		return nil, err
	}
	states, err := ops.options.Attempts.Effects(ctx, h.run)
	if err != nil {
		return nil, err
	}
	return onePage(showEffects(states)), nil
}
