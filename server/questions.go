package server

import (
	"context"
	"time"

	"mailroom"
	"mailroom/alert"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/ledger"
	"mailroom/server/internal/request"
	"mailroom/server/operate"
	"mailroom/store"
	"mailroom/thread"
)

// questionHandlers serve the links in alerts. Their requests need no token, because a link has a right of its own.
type questionHandlers struct {
	alerts   *operate.Alerts // nil: no link is valid
	operator *auth.Token
	ledger   Tickets
	find     request.Lookup
}

type questionInput struct{ Body api.QuestionLink }

// question shows the ticket of a link. It changes nothing, so a program that opens links in messages, such as a
// preview, does no harm.
func (h *questionHandlers) question(ctx context.Context, in *questionInput) (*body[api.Question], error) {
	opened, err := h.open(ctx, in.Body.Link)
	if err != nil {
		return nil, err
	}
	return showQuestion(opened.ticket, opened.link), nil
}

type questionDecisionInput struct{ Body api.QuestionDecision }

// decide decides the ticket of a link, unless the right of the link ends before its decision commits.
func (h *questionHandlers) decide(ctx context.Context, in *questionDecisionInput) (*body[api.Question], error) {
	b := in.Body
	opened, err := h.open(ctx, b.Link)
	if err != nil {
		return nil, err
	}
	by := ledger.Caller{}
	if opened.holder != nil {
		by = ledger.RowOf(opened.holder)
	}
	by.Kind, by.From = string(auth.KindLink), requestOf(ctx).from
	ctx = ledger.WithCaller(ctx, func() ledger.Caller { return by })
	k, err := h.ledger.Decide(ctx, decisionOf(opened.link, b))
	if err != nil {
		return nil, request.Locate("body.", err)
	}
	return showQuestion(k, opened.link), nil
}

// openedLink says what a valid link permits.
type openedLink struct {
	link   alert.Link
	ticket *mailroom.Ticket // the ticket as it was asked
	holder *auth.Token      // row with which the link ends; nil: none
}

// open checks a link and, in one snapshot, whether the target that got the link may still decide.
func (h *questionHandlers) open(ctx context.Context, text string) (out openedLink, err error) {
	if h.alerts == nil {
		return out, mailroom.Errorf(mailroom.CodeUnauthenticated, "the link is not valid: this server sends no alerts")
	}
	now := time.Now()
	if out.link, err = h.alerts.Links.Open(text, now); err != nil {
		return out, err
	}
	name := out.link.Target()
	switch t := h.alerts.Find(name); {
	case t == nil || !t.Decide:
		return out, mailroom.Errorf(mailroom.CodeUnauthenticated,
			"the link is no longer valid: target %s was removed, or its alerts do not decide any more", name)
	case t.Place != out.link.Place:
		return out, mailroom.Errorf(mailroom.CodeUnauthenticated,
			"the link is no longer valid: target %s is another one than the link was sent to", name)
	}
	err = h.find.View(ctx, func(rd store.Reader) (err error) {
		if out.holder, err = out.link.Holder(rd, h.alerts.Allowed(), h.operator, now); err != nil {
			return err
		}
		rows, err := rd.Tickets(store.TicketQuery{IDs: []string{out.link.Ticket}})
		switch {
		case err != nil:
			return err
		case len(rows) == 0:
			return mailroom.Errorf(mailroom.CodeNotFound, "the question no longer exists")
		case rows[0].Digest != out.link.Digest:
			return mailroom.Errorf(mailroom.CodeConflict, "the question is another one than the link was sent for")
		}
		out.ticket = rows[0]
		return nil
	})
	return out, err
}

// showQuestion returns the ticket k in the form that the page of its link shows.
func showQuestion(k *mailroom.Ticket, link alert.Link) *body[api.Question] {
	return &body[api.Question]{api.Question{Ticket: request.ShowTicket(k), Agent: k.Agent, LinkExpiresAt: link.Expires}}
}

// decisionOf returns the decision that was made with a link.
func decisionOf(link alert.Link, b api.QuestionDecision) thread.Decision {
	return thread.Decision{
		Ticket: link.Ticket, Verdict: b.Decision, Answer: compactAnswer(b.Answer), Reason: b.Reason, Digest: link.Digest,
		By: alert.AgentName(link.Target()),
	}
}
