package server

import (
	"bytes"
	"context"
	"encoding/json"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/server/internal/request"
	"mailroom/thread"
)

// Tickets is the part of a ledger that decides tickets.
type Tickets interface {
	Decide(ctx context.Context, d thread.Decision) (*mailroom.Ticket, error)
}

// ticketHandlers serve tickets.
type ticketHandlers struct {
	ledger Tickets
	find   request.Lookup
}

// TicketPath is the ticket id in a path.
type TicketPath struct {
	Ticket string `path:"ticket" doc:"Id of a ticket."`
}

type ticketInput struct{ TicketPath }

func (h *ticketHandlers) getTicket(ctx context.Context, in *ticketInput) (*body[api.Ticket], error) {
	k, err := h.find.Ticket(ctx, in.Ticket)
	if err != nil {
		return nil, err
	}
	return &body[api.Ticket]{request.ShowTicket(k)}, nil
}

type decideInput struct {
	TicketPath
	Body api.Decision
}

func (h *ticketHandlers) decide(ctx context.Context, in *decideInput) (*body[api.Ticket], error) {
	who, b := requestOf(ctx).who, in.Body
	by := who.Name
	if b.DecidedBy != "" {
		if !who.Has(auth.PermissionAdmin) {
			return nil, mailroom.Errorf(mailroom.CodeForbidden, "decided_by needs a token with the scope admin")
		}
		by = b.DecidedBy
	}
	if _, err := h.find.Ticket(ctx, in.Ticket); err != nil {
		return nil, err
	}
	k, err := h.ledger.Decide(ctx, thread.Decision{
		Ticket: in.Ticket, Verdict: b.Decision, Answer: compactAnswer(b.Answer), Reason: b.Reason, Digest: b.Digest, By: by,
	})
	if err != nil {
		return nil, request.Locate("body.", err)
	}
	return &body[api.Ticket]{request.ShowTicket(k)}, nil
}

// readDecisions reads the decisions of a submit, made by its sender.
func readDecisions(made []api.SubmitDecision, by string) []thread.Decision {
	var out []thread.Decision
	for _, d := range made {
		out = append(out, thread.Decision{
			Ticket: d.Ticket, Verdict: d.Decision, Answer: compactAnswer(d.Answer), Reason: d.Reason, Digest: d.Digest, By: by,
		})
	}
	return out
}

// compactAnswer removes insignificant white space, so that equal answers have equal bytes. It
// returns nil for null.
func compactAnswer(answer json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	if err := json.Compact(&b, answer); err != nil || b.String() == "null" {
		return nil // the body was valid JSON, so only an absent answer fails
	}
	return b.Bytes()
}
