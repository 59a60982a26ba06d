package adapter

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"mailroom"
	"mailroom/channel/chat"
	"mailroom/channel/chat/limiter"
	"mailroom/channel/chat/question"
	"mailroom/entry"
	"mailroom/internal/display"
	"mailroom/internal/thread"
	"mailroom/store"
)

// handleButton decides the ticket of a pressed button and answers with the redrawn question.
func (in *inbound) handleButton(ctx context.Context, e *chat.Event, tier chat.Tier) error {
	if done, err := in.wasAnswered(ctx, e); done || err != nil {
		return in.skipAnswered(ctx, e, err)
	}
	d, ok := question.ParseButton(e.Data)
	var k *mailroom.Ticket
	if ok {
		var err error
		if e.TopicUnknown {
			if err := in.findTopic(ctx, e, d.Ticket); err != nil {
				return err
			}
		}
		if k, err = in.ticketInRoom(ctx, in.deliveryThread(e), d.Ticket); err != nil {
			return err
		}
	}
	switch {
	case tier < chat.TierAdmin:
		in.ackButton(e, "Only an admin may decide this.")
		return in.skip(ctx, e, "the user is no admin")
	case k == nil:
		in.ackButton(e, "This button matches no question in this chat.")
		return in.skip(ctx, e, "the button names no ticket of this room")
	}
	d.By = in.sender(e)
	k, err := in.decideTicket(ctx, d, k)
	if err != nil {
		return err
	}
	in.out.watchThread(k.Thread, e.Room, 0)
	words := question.Outcome(k, in.deciderName(e))
	in.ackButton(e, words)
	return in.answer(ctx, e, words, map[string]string{chat.LabelRedraw: e.TargetID})
}

// ackTimeout bounds the acknowledgement of a button press.
const ackTimeout = 10 * time.Second

// ackButton shows the result to the user who pressed a button. It is best effort.
func (in *inbound) ackButton(e *chat.Event, words string) {
	switch {
	case !in.caps.Buttons:
		return
	case e.AckInline != nil:
		e.AckInline(display.Text(words))
		return
	}
	press := *e
	told := in.runBackground(ackTimeout, func(ctx context.Context) {
		err := in.out.limiter.Do(ctx, press.Room, in.caps, limiter.PriorityAck, func(ctx context.Context) error { return in.platform.AckButton(ctx, press, display.Line(words)) })
		if err != nil {
			in.host.Log().Debug("could not acknowledge button press", "error", err)
		}
	})
	if !told {
		in.host.Log().Debug("button press not acknowledged: too many calls in progress")
	}
}

// deciderName returns a function that names a decider: by display name if it is the event's user.
func (in *inbound) deciderName(e *chat.Event) func(by string) string {
	return func(by string) string {
		if by == in.sender(e) && e.User.Name != "" {
			return e.User.Name
		}
		return by
	}
}

// decideTicket decides a ticket and returns its present state. The decision may be an earlier
// one, or none.
func (in *inbound) decideTicket(ctx context.Context, d thread.Decision, k *mailroom.Ticket) (*mailroom.Ticket, error) {
	now, err := in.host.Decide(ctx, d)
	switch mailroom.CodeOf(err) {
	case "":
		return now, nil
	case mailroom.CodeConflict, mailroom.CodeGone, mailroom.CodeInvalid, mailroom.CodeTooLarge, mailroom.CodeNotFound:
	default:
		return nil, err
	}
	found, err := in.tickets(ctx, store.TicketQuery{IDs: []string{k.ID}})
	if err != nil || len(found) == 0 {
		gone := *k
		gone.State = mailroom.TicketVoid
		return &gone, err
	}
	return found[0], nil
}

func (in *inbound) tickets(ctx context.Context, q store.TicketQuery) (found []*mailroom.Ticket, err error) {
	err = in.host.View(ctx, func(r store.Reader) error {
		found, err = r.Tickets(q)
		return err
	})
	return found, err
}

// findTopic sets the topic of a button event to the topic that the ticket's conversation delivers
// to, if that is in the same chat.
func (in *inbound) findTopic(ctx context.Context, e *chat.Event, id string) error {
	return in.host.View(ctx, func(r store.Reader) error {
		found, err := r.Tickets(store.TicketQuery{IDs: []string{id}})
		if err != nil || len(found) == 0 {
			return err
		}
		rows, err := r.Threads(store.ThreadQuery{IDs: []string{found[0].Thread}})
		if err != nil || len(rows) == 0 {
			return err
		}
		if at, ok := chat.RoomOfThread(in.host.Name(), in.caps.BotID, rows[0].DeliverTo); ok && at.Chat == e.Room.Chat {
			e.Room.Topic = at.Topic
		}
		return nil
	})
}

// ticketInRoom returns an approval of a conversation that delivers to a room, nil if the id names
// no such ticket.
func (in *inbound) ticketInRoom(ctx context.Context, out, id string) (k *mailroom.Ticket, err error) {
	err = in.host.View(ctx, func(r store.Reader) error {
		found, err := r.Tickets(store.TicketQuery{IDs: []string{id}})
		if err != nil || len(found) == 0 || found[0].Kind != mailroom.TicketApproval {
			return err
		}
		rows, err := r.Threads(store.ThreadQuery{IDs: []string{found[0].Thread}})
		if err == nil && len(rows) == 1 && rows[0].DeliverTo == out {
			k = found[0]
		}
		return err
	})
	return k, err
}

// handleDecision handles /approve and /deny. The command decides the ticket that its word names,
// or else the only open approval of the room.
func (in *inbound) handleDecision(ctx context.Context, e *chat.Event, c *conversation, v mailroom.Verdict, rest string) error {
	found := pinnedCommand{Event: e.Key, Verdict: v}
	shown, err := in.shownTickets(ctx, in.deliveryThread(e))
	if err != nil {
		return err
	}
	found.Ticket, found.Reason, found.Words = question.Choose(shown, v, rest, in.caps)
	d, err := in.pinCommand(ctx, c, found)
	if err != nil {
		return err
	}
	if d.Ticket == nil {
		return in.answer(ctx, e, d.Words, nil)
	}
	k, err := in.decideTicket(ctx, thread.Decision{
		Ticket: d.Ticket.ID, Verdict: d.Verdict, Digest: d.Ticket.Digest, Reason: d.Reason, By: in.sender(e),
	}, d.Ticket)
	if err != nil {
		return err
	}
	in.out.watchThread(k.Thread, e.Room, 0)
	return in.answer(ctx, e, question.Outcome(k, in.deciderName(e)), nil)
}

const (
	maxShownDeliveries = 200 // deliveries of a room that are searched
	maxShownTickets    = 100 // of one conversation
)

// shownTickets returns the approvals that were sent to a room, the newest first.
func (in *inbound) shownTickets(ctx context.Context, out string) (all []*mailroom.Ticket, err error) {
	err = in.host.View(ctx, func(r store.Reader) error {
		all = nil
		sent, err := r.Runs(store.RunQuery{Thread: out, Limit: maxShownDeliveries})
		if err != nil {
			return err
		}
		asked := map[string]bool{} // ids
		var threads []string
		for _, run := range sent {
			if !thread.IsDelivery(run) || run.Status != mailroom.StatusCompleted || len(run.Lineage) == 0 {
				continue
			}
			id, err := sentTicket(r, run)
			if err != nil {
				return err
			}
			if id != "" {
				asked[id] = true
				threads = append(threads, run.Lineage[len(run.Lineage)-1])
			}
		}
		slices.Sort(threads)
		for _, thread := range slices.Compact(threads) {
			found, err := r.Tickets(store.TicketQuery{Thread: thread, Kinds: []mailroom.TicketKind{mailroom.TicketApproval}, Limit: maxShownTickets})
			if err != nil {
				return err
			}
			for _, k := range found {
				if asked[k.ID] {
					all = append(all, k)
				}
			}
		}
		slices.SortStableFunc(all, func(a, b *mailroom.Ticket) int { return cmp.Compare(b.Key, a.Key) })
		return nil
	})
	return all, err
}

// sentTicket returns the id of the ticket that a delivery has sent, "" if it sent none.
func sentTicket(r store.Reader, run *mailroom.Run) (string, error) {
	found, err := r.Entries(store.EntryQuery{Thread: run.Thread, After: run.FirstSeq - 1, Before: run.FirstSeq + 1, Limit: 1})
	if err != nil || len(found) == 0 || found[0].Kind != entry.KindMessage {
		return "", err
	}
	var m mailroom.Message
	if err := found[0].Decode(&m); err != nil {
		return "", err
	}
	for _, p := range m.Parts {
		if p.Type != "data" {
			continue
		}
		var body struct {
			Ticket *mailroom.Ticket `json:"ticket"`
		}
		if err := json.Unmarshal(p.Data, &body); err != nil {
			return "", fmt.Errorf("decode delivered message: %w", err)
		}
		if body.Ticket != nil {
			return body.Ticket.ID, nil
		}
	}
	return "", nil
}
