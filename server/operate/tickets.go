package operate

import (
	"context"

	"mailroom"
	"mailroom/api"
	"mailroom/server/internal/request"
	"mailroom/store"
)

func ticketKeys() []request.FilterKey {
	return []request.FilterKey{
		{Name: "id"},
		{Name: "state", Values: []string{
			string(mailroom.TicketOpen), string(mailroom.TicketDecided), string(mailroom.TicketExpired),
			string(mailroom.TicketVoid),
		}},
		{Name: "kind", Values: []string{
			string(mailroom.TicketApproval), string(mailroom.TicketInput), string(mailroom.TicketChildren),
			string(mailroom.TicketTimer), string(mailroom.TicketEvent),
		}},
		{Name: "thread"}, {Name: "run"}, {Name: "agent"},
	}
}

// ticketQuery makes the query for the part of a filter that a store can answer from an index: a run,
// or a thread and open tickets.
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

func (h *ListHandlers) Tickets(ctx context.Context, in *listTicketsInput) (*body[api.Page[api.Ticket]], error) {
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
	if request.CallerOf(ctx).SeesAll() {
		l.ids = rangeOf(f, func(k *mailroom.Ticket) string { return k.ID }, ticketsUnder)
	}
	if !f.Empty() {
		l.match = func(_ store.Reader, k *mailroom.Ticket, _ *mailroom.Thread) (bool, error) {
			return f.Match(request.FilterRow{Text: func(key string) string {
				switch key {
				case "id":
					return k.ID
				case "state":
					return string(k.State)
				case "kind":
					return string(k.Kind)
				case "thread":
					return k.Thread
				case "agent":
					return k.Agent
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
