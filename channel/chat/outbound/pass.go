package outbound

import (
	"context"
	"fmt"
	"slices"

	"mailroom"
	"mailroom/store"
	"mailroom/thread"
)

// maxPassers bounds the queued deliveries of a room among which a long reply looks for those that pass it.
const maxPassers = 50

// letPass ends the attempt before message n if another delivery passes the remaining messages of
// this one. A message that was sent has its receipt, so the next attempt continues behind it.
func (x *attempt) letPass(ctx context.Context, n int) error {
	if _, sent := x.receipts[x.name(outgoing{n: n})]; sent {
		return nil
	}
	to, err := x.findPasser(ctx)
	if err != nil || to == "" {
		return err
	}
	return &thread.GiveWay{To: to}
}

// findPasser returns the first queued delivery of the room that may be sent before the remaining messages of this
// one: an answer of the channel itself, the redraw of a question, or what a run says that waits for a person. The
// text and the question of one run keep their order, so a question does not pass a text of its own run. It
// returns "" if no delivery may pass.
//
// Static priorities would let a question overtake the text that explains it, and a second queue of
// a room for urgent messages would need a second writer of the state of the room.
func (x *attempt) findPasser(ctx context.Context) (id string, err error) {
	own := x.session.Run()
	err = x.conn.host.View(ctx, func(r store.Reader) error {
		queued, err := r.Runs(store.RunQuery{Thread: own.Thread, Set: store.RunsQueued, Limit: maxPassers})
		if err != nil || len(queued) == 0 {
			return err
		}
		asks, err := findAsking(r, queued)
		if err != nil {
			return err
		}
		asks[own.Parent] = false
		for _, q := range queued {
			switch {
			case q.Priority < own.Priority:
			case own.Priority < mailroom.DefaultPriority: // the delivery passed a reply; questions do not pass each other
				continue
			case q.Metadata[labelDecided] != "":
			case thread.IsDelivery(q.View()) && asks[q.Parent]:
			default:
				continue
			}
			id = q.ID
			return nil
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("look for messages that pass a long reply: %w", err)
	}
	return id, nil
}

// findAsking returns the ids of the runs that wait for a person, among the runs whose deliveries are queued.
func findAsking(r store.Reader, queued []*mailroom.Run) (map[string]bool, error) {
	found := map[string]bool{}
	var parents []string
	for _, q := range queued {
		if thread.IsDelivery(q.View()) && !slices.Contains(parents, q.Parent) {
			parents = append(parents, q.Parent)
		}
	}
	if len(parents) == 0 {
		return found, nil
	}
	open, err := r.Tickets(store.TicketQuery{
		Runs: parents, States: []mailroom.TicketState{mailroom.TicketOpen},
		Kinds: []mailroom.TicketKind{mailroom.TicketApproval, mailroom.TicketInput},
	})
	for _, k := range open {
		found[k.Run] = true
	}
	return found, err
}
