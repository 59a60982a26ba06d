package server

import (
	"bytes"
	"context"
	"encoding/json"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/server/internal/request"
	"mailroom/store"
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
	pages  pager
}

func ticketKeys() []request.FilterKey {
	return []request.FilterKey{
		{Name: "state", Values: []string{
			string(mailroom.TicketOpen), string(mailroom.TicketDecided), string(mailroom.TicketExpired), string(mailroom.TicketVoid),
		}},
		{Name: "kind", Values: []string{
			string(mailroom.TicketApproval), string(mailroom.TicketInput), string(mailroom.TicketChildren), string(mailroom.TicketTimer), string(mailroom.TicketEvent),
		}},
		{Name: "thread"}, {Name: "run"},
	}
}

// ticketQuery makes the query for the part of a filter that a store can answer from an index: a run,
// or a thread and open tickets. The rest is matched row by row, so that a store never skips decided
// tickets without counting them.
func ticketQuery(f request.Filter) store.TicketQuery {
	q := store.TicketQuery{}
	if run, ok := f.Exact("run"); ok {
		q.Runs = []string{run}
		return q
	}
	q.Thread, _ = f.Exact("thread")
	if state, _ := f.Exact("state"); state != string(mailroom.TicketOpen) {
		return q
	}
	q.States = []mailroom.TicketState{mailroom.TicketOpen}
	if kind, ok := f.Exact("kind"); ok {
		q.Kinds = []mailroom.TicketKind{mailroom.TicketKind(kind)}
	}
	return q
}

type listTicketsInput struct{ ListParams }

func (h *ticketHandlers) listTickets(ctx context.Context, in *listTicketsInput) (*body[api.Page[api.Ticket]], error) {
	f, err := request.ParseFilter(in.Q, ticketKeys())
	if err != nil {
		return nil, request.Locate("query.", err)
	}
	source, err := h.ticketsFrom(ctx, f)
	if err != nil {
		return nil, err
	}
	l := list[*mailroom.Ticket, api.Ticket]{
		name: "tickets", named: !source.scoped, show: showTickets,
		key:    func(k *mailroom.Ticket) int64 { return k.Key },
		thread: func(k *mailroom.Ticket) string { return k.Thread },
		fetch:  source.read,
	}
	if !f.Empty() {
		l.match = func(_ store.Reader, k *mailroom.Ticket, _ *mailroom.Thread) (bool, error) {
			return f.Match(request.FilterRow{Text: func(key string) string {
				switch key {
				case "state":
					return string(k.State)
				case "kind":
					return string(k.Kind)
				case "thread":
					return k.Thread
				}
				return k.Run
			}}), nil
		}
	}
	return l.page(ctx, h.pages, in.ListParams)
}

func showTickets(_ store.Reader, rows []*mailroom.Ticket) ([]api.Ticket, error) {
	out := make([]api.Ticket, 0, len(rows))
	for _, k := range rows {
		out = append(out, request.ShowTicket(k))
	}
	return out, nil
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
