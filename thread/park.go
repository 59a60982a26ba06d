package thread

import (
	"encoding/json"
	"slices"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/internal/check"
	"mailroom/internal/jsontext"
	"mailroom/store"
)

// checkPark returns an error if the wait names a ticket that is neither in tickets nor opened by s.
func (s *Settle) checkPark(tickets *Tickets) error {
	if s.Wait == nil || len(s.Wait.Names) == 0 {
		return check.Invalid("wait", "names no ticket", "")
	}
	asked := map[string]bool{}
	for i := range s.Asks {
		asked[s.Asks[i].Name] = true
	}
	for _, name := range s.Wait.Names {
		if k := tickets.named(s.Run, name); !asked[name] && (k == nil || k.State == mailroom.TicketVoid) {
			return check.Invalid("wait", "names a ticket that does not exist; include it in asks", name)
		}
	}
	return tickets.checkAsks(s.Run, s.asks)
}

// park ends an attempt that has to wait. If the wait is already over, or an unread steered message
// answers a question, the run is queued at once.
func (t *State) park(r *mailroom.Run, s *Settle, now time.Time) {
	t.openTickets(r, s.asks, now)
	r.Status, r.Wait = mailroom.StatusWaiting, s.Wait
	t.release(r)
	t.touchRun(r)
	body := entry.RunWaiting{Tickets: []string{}, Any: s.Wait.Any}
	for _, name := range s.Wait.Names {
		body.Tickets = append(body.Tickets, TicketID(r.ID, name))
	}
	if until := t.Tickets.expiry(r.ID); !until.IsZero() {
		body.Until = &until
	}
	t.append(entry.KindWaiting, r, now, body)
	unread := slices.ContainsFunc(r.Steers, func(s mailroom.Steer) bool { return !s.Read && !s.Retracted })
	if t.Tickets.waitEnded(r) || unread && t.Tickets.waitKind(r, now) == mailroom.TicketInput {
		t.requeue(r, now)
	}
}

// resume steers the messages into the parked run c, and answers its first open question with them
// if their route says so.
func (s *submission) resume(c *mailroom.Run, to route) store.Submitted {
	superseded := []string{}
	if s.in.Mode == mailroom.ModeLatest {
		superseded = s.t.supersede(s.replaces, s.in.Sender, s.now)
	}
	out := s.steer(c)
	if to == routeResume {
		s.t.requeue(c, s.now)
	} else if k := s.t.Tickets.firstQuestion(c, s.now); k != nil {
		for _, steer := range c.Steers[len(c.Steers)-len(s.in.Messages):] {
			c.Spent = append(slices.Clone(c.Spent), steer.Message)
		}
		s.t.decide(k, Decision{Verdict: mailroom.VerdictAnswer, Answer: messageAnswer(s.in), By: s.in.Sender}, s.now)
	}
	out.Status, out.Disposition, out.Superseded = c.Status, store.DispositionResumed, superseded
	return out
}

// messageAnswer returns the text of the messages as the answer of a ticket, truncated to fit.
func messageAnswer(in *Submit) json.RawMessage {
	text := ""
	if len(in.Messages) == 1 {
		text = JoinText(in.Messages[0].Parts)
	}
	for i := 0; len(in.Messages) > 1 && i < len(in.Messages) && len(text) <= mailroom.MaxAnswer; i++ {
		text = JoinText(append(mailroom.Text(text), in.Messages[i].Parts...))
	}
	return jsontext.AppendAny(nil, truncate(text, mailroom.MaxAnswer/2))
}
