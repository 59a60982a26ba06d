package inbound

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/entry"
	"mailroom/internal/display"
	"mailroom/store"
	"mailroom/thread"
)

// decisions decides tickets by buttons and by commands.
type decisions struct {
	host          *channel.Host
	caps          chat.Capabilities
	answers       *answers
	conversations *conversations
	acks          *buttonAcks
	watch         func(thread string, at chat.Room, after int64)
}

// button decides the ticket of a pressed button and answers with the redrawn question.
func (d *decisions) button(ctx context.Context, e *event) error {
	if done, err := d.answers.skipSent(ctx, e); done || err != nil {
		return err
	}
	decision, ok := chat.ParseButton(e.Data)
	var k *mailroom.Ticket
	if ok {
		var err error
		if k, err = d.buttonTicket(ctx, e, decision.Ticket); err != nil {
			return err
		}
	}
	switch {
	case e.tier < chat.TierAdmin:
		d.acks.show(e, "Only an admin may decide this.")
		return d.answers.skip(ctx, e, "the user is no admin")
	case k == nil:
		d.acks.show(e, "This button matches no question in this chat.")
		return d.answers.skip(ctx, e, "the button names no ticket of this room")
	}
	decision.By = e.sender
	k, err := d.decide(ctx, decision, k)
	if err != nil {
		return err
	}
	d.watch(k.Thread, e.Room, 0)
	words := chat.TicketOutcome(k, deciderName(e))
	d.acks.show(e, words)
	return d.answers.send(ctx, e, words, map[string]string{chat.LabelRedraw: e.TargetID})
}

// deciderName returns a function that names a decider: by display name if it is the event's user.
func deciderName(e *event) func(by string) string {
	return func(by string) string {
		if by == e.sender && e.User.Name != "" {
			return e.User.Name
		}
		return by
	}
}

// decide applies a decision to a ticket and returns the ticket as it is afterwards: with an earlier
// decision if another one came first, and with none if it has expired or its run has ended.
func (d *decisions) decide(
	ctx context.Context, decision thread.Decision, k *mailroom.Ticket,
) (*mailroom.Ticket, error) {
	now, err := d.host.Decide(ctx, decision)
	switch mailroom.CodeOf(err) {
	case "":
		return now, nil
	case mailroom.CodeConflict, mailroom.CodeGone, mailroom.CodeInvalid, mailroom.CodeTooLarge, mailroom.CodeNotFound:
	default:
		return nil, err
	}
	var found []*mailroom.Ticket
	err = d.host.View(ctx, func(r store.Reader) (err error) {
		found, err = r.Tickets(store.TicketQuery{IDs: []string{k.ID}})
		return err
	})
	if err != nil || len(found) == 0 {
		gone := *k
		gone.State = mailroom.TicketVoid
		return &gone, err
	}
	return found[0], nil
}

// buttonTicket returns the approval of a pressed button, nil if no conversation that delivers to the room has it. It
// also completes the event's topic with the topic to which the ticket's conversation delivers, if that topic is in
// the same chat.
func (d *decisions) buttonTicket(ctx context.Context, e *event, id string) (k *mailroom.Ticket, err error) {
	err = d.host.View(ctx, func(r store.Reader) error {
		found, err := r.Tickets(store.TicketQuery{IDs: []string{id}})
		if err != nil || len(found) == 0 {
			return err
		}
		rows, err := r.Threads(store.ThreadQuery{IDs: []string{found[0].Thread}})
		if err != nil || len(rows) == 0 {
			return err
		}
		out := rows[0].DeliverTo
		if at, ok := chat.RoomOfThread(d.host.Name(), d.caps.BotID, out); e.TopicUnknown && ok && at.Chat == e.Room.Chat {
			e.Room.Topic = at.Topic
		}
		if found[0].Kind == mailroom.TicketApproval && out == d.answers.room(e) {
			k = found[0]
		}
		return nil
	})
	return k, err
}

// command handles /approve and /deny. The command decides the ticket that its word names,
// or else the only open approval of the room.
func (d *decisions) command(ctx context.Context, e *event, v mailroom.Verdict, rest string) error {
	found := pinnedCommand{Event: e.Key, Verdict: v}
	shown, err := d.shownTickets(ctx, d.answers.room(e))
	if err != nil {
		return err
	}
	found.Ticket, found.Reason, found.Words = chat.ChooseTicket(shown, v, rest, d.caps)
	pinned, err := d.conversations.pin(ctx, &e.Event, found)
	if err != nil {
		return err
	}
	if pinned.Ticket == nil {
		return d.answers.send(ctx, e, pinned.Words, nil)
	}
	k, err := d.decide(ctx, thread.Decision{
		Ticket: pinned.Ticket.ID, Verdict: pinned.Verdict, Digest: pinned.Ticket.Digest, Reason: pinned.Reason, By: e.sender,
	}, pinned.Ticket)
	if err != nil {
		return err
	}
	d.watch(k.Thread, e.Room, 0)
	return d.answers.send(ctx, e, chat.TicketOutcome(k, deciderName(e)), nil)
}

const (
	maxShownDeliveries = 200 // deliveries of a room that are searched
	maxShownTickets    = 100 // approvals of a conversation that are searched
)

// shownTickets returns the approvals that were sent to a room, the newest first.
func (d *decisions) shownTickets(ctx context.Context, out string) (all []*mailroom.Ticket, err error) {
	err = d.host.View(ctx, func(r store.Reader) error {
		all = nil
		sent, err := r.Runs(store.RunQuery{Thread: out, Limit: maxShownDeliveries})
		if err != nil {
			return err
		}
		asked := map[string]bool{} // ids
		var threads []string
		for _, run := range sent {
			if !thread.IsDelivery(run.View()) || run.Status != mailroom.StatusCompleted || len(run.Lineage) == 0 {
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
			found, err := r.Tickets(store.TicketQuery{Thread: thread, Kinds: []mailroom.TicketKind{mailroom.TicketApproval},
				Limit: maxShownTickets})
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

// sentTicket returns the id of the ticket whose question a delivery has sent to the room, "" if it
// sent another text.
func sentTicket(r store.Reader, run *mailroom.Run) (string, error) {
	found, err := r.Entries(store.EntryQuery{Thread: run.Thread, After: run.FirstSeq - 1, Before: run.FirstSeq + 1,
		Limit: 1})
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

// ackTimeout bounds the acknowledgement of a button press.
const ackTimeout = 10 * time.Second

// buttonAcks shows the users who press buttons what came of it.
type buttonAcks struct {
	platform chat.Platform
	caps     chat.Capabilities
	limiter  *chat.Limiter
	work     *background
}

// show shows the result to the user who pressed a button. It is best effort.
func (a *buttonAcks) show(e *event, words string) {
	switch {
	case !a.caps.Buttons:
		return
	case e.AckInline != nil:
		e.AckInline(display.Text(words))
		return
	}
	press := e.Event
	acknowledged := a.work.try(ackTimeout, func(ctx context.Context) {
		err := a.limiter.Do(ctx, press.Room, a.caps, chat.PriorityAck, func(ctx context.Context) error {
			return a.platform.AckButton(ctx, press, display.Line(words))
		})
		if err != nil {
			a.work.log.Debug("could not acknowledge button press", "error", err)
		}
	})
	if !acknowledged {
		a.work.log.Debug("button press handled but not acknowledged: too many calls to the platform in progress")
	}
}
