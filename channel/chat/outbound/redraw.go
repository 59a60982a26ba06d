package outbound

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"mailroom"
	"mailroom/bus"
	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/chat/room"
	"mailroom/entry"
	"mailroom/store"
)

// maxRedrawWait bounds how long other deliveries to a room wait for a question's redraw.
const maxRedrawWait = 10 * time.Second

// redraw edits the questions of the room that were decided. It returns an error only if a retry
// is due soon; otherwise the next delivery redraws what is left.
func (x *attempt) redraw(ctx context.Context) error {
	if len(x.saved.Asked) == 0 || !x.conn.caps.Edits {
		return nil
	}
	shown := map[string]string{} // message by ticket
	var list []string
	for _, a := range x.saved.Asked {
		shown[a.Ticket] = a.ID
		list = append(list, a.Ticket)
	}
	rows, err := x.conn.tickets(ctx, list...)
	for _, k := range rows {
		if err != nil {
			break
		}
		if k.State == mailroom.TicketOpen {
			continue
		}
		all := chat.SplitText(chat.TicketOutcome(k, func(by string) string { return by }), x.conn.caps, 0)
		if len(all) > 0 {
			err = x.conn.do(ctx, x.room, chat.PriorityQuestion, func(ctx context.Context) error {
				return x.conn.platform.Edit(ctx, x.room, shown[k.ID], chat.Message{Text: all[0].Text})
			})
		}
		if err == nil || isRefused(err) {
			x.saved.DropMessage(shown[k.ID])
			err = nil
		}
	}
	if errors.Is(err, chat.ErrPostponed) && mailroom.AsFailure(err).RetryAfter <= maxRedrawWait {
		return err
	}
	if err != nil {
		x.conn.host.Log().Debug("could not redraw question", "error", err)
	}
	return nil
}

// commitBuffer is the number of commits that are buffered while questions are checked.
const commitBuffer = 16

// labelDecided marks a delivery that only redraws the questions of its room. Its value is the
// decided ticket.
const labelDecided = "decided"

// redrawer watches the questions that are shown as open, and requests a redraw of those that are
// decided. It is best effort: each delivery to their room redraws them too.
type redrawer struct {
	conn    *connection
	commits *bus.Bus // nil: no bus announces commits
}

// run checks the watched questions when one may be decided, until ctx ends.
func (w *redrawer) run(ctx context.Context) {
	if !w.conn.caps.Edits {
		return
	}
	if err := w.load(ctx); err != nil && ctx.Err() == nil {
		w.conn.host.Log().Debug("cannot load open questions; they refresh with the next delivery", "error", err)
	}
	var commits *bus.Subscription // while there are questions to watch
	stop := func() {
		if commits != nil {
			commits.Close()
			commits = nil
		}
	}
	defer func() { stop() }()
	look := time.NewTimer(0) // each connection checks at its start
	defer look.Stop()
	for w.await(ctx, look, commits) {
		if len(w.conn.rooms.questions()) == 0 {
			stop()
		} else if commits == nil && w.commits != nil {
			commits = w.commits.SubscribeEntries("", commitBuffer)
		}
		wait, err := w.check(ctx)
		if err != nil && ctx.Err() == nil {
			w.conn.host.Log().Debug("cannot check open questions; they refresh with the next delivery", "error", err)
		}
		look.Reset(wait)
	}
}

// await waits until the questions must be checked. It returns false once ctx ends.
func (w *redrawer) await(ctx context.Context, look *time.Timer, commits *bus.Subscription) bool {
	var notices <-chan *bus.Notice
	if commits != nil {
		notices = commits.C
	}
	for {
		select {
		case n := <-notices:
			if commits.Lost() || w.mayDecide(n) {
				return true
			}
		case <-w.conn.rooms.changed:
			return true
		case <-look.C:
			return true
		case <-ctx.Done():
			return false
		}
	}
}

// mayDecide reports whether a commit may have decided a watched question.
func (w *redrawer) mayDecide(n *bus.Notice) bool {
	ends := func(e mailroom.Entry) bool {
		switch e.Kind {
		case entry.KindTicketDecided, entry.KindTicketExpired, entry.KindCompleted, entry.KindFailed, entry.KindCancelled:
			return true
		}
		return false
	}
	return slices.ContainsFunc(n.Entries, ends) && w.conn.rooms.asks(n.Thread)
}

// load watches the questions that were open when the process started.
func (w *redrawer) load(ctx context.Context) error {
	var open []*mailroom.Ticket
	rooms := map[string]chat.Room{} // rooms by conversation thread
	err := w.conn.host.View(ctx, func(r store.Reader) (err error) {
		open, err = r.Tickets(store.TicketQuery{
			States: []mailroom.TicketState{mailroom.TicketOpen},
			Kinds:  []mailroom.TicketKind{mailroom.TicketApproval, mailroom.TicketInput}, Limit: maxWatchedQuestions,
		})
		if err != nil || len(open) == 0 {
			return err
		}
		var threads []string
		for _, k := range open {
			threads = append(threads, k.Thread)
		}
		slices.Sort(threads)
		rows, err := r.Threads(store.ThreadQuery{IDs: slices.Compact(threads)})
		for _, t := range rows {
			if at, ok := chat.RoomOfThread(w.conn.host.Name(), w.conn.caps.BotID, t.DeliverTo); ok {
				rooms[t.ID] = at
			}
		}
		return err
	})
	for _, k := range open {
		if at, here := rooms[k.Thread]; here {
			w.conn.rooms.ask(at, k.ID, k.Thread)
		}
	}
	return err
}

// check requests a redraw of decided questions that are still shown as open. It returns the time
// until the next check.
func (w *redrawer) check(ctx context.Context) (wait time.Duration, err error) {
	asked := w.conn.rooms.questions()
	if len(asked) == 0 {
		return room.CheckInterval, nil
	}
	decided := map[string]bool{}     // by ticket: whether its question is decided
	rooms := map[string]chat.Room{}  // rooms with a decided question, by delivery thread
	saved := map[string]room.Saved{} // likewise
	err = w.conn.host.View(ctx, func(r store.Reader) error {
		for id := range asked {
			decided[id] = true // true also for a deleted ticket
		}
		tickets, err := r.Tickets(store.TicketQuery{IDs: slices.Sorted(maps.Keys(asked))})
		if err != nil {
			return err
		}
		for _, k := range tickets {
			decided[k.ID] = k.State != mailroom.TicketOpen
		}
		for id, at := range asked {
			if decided[id] {
				rooms[at.DeliveryThread(w.conn.host.Name(), w.conn.caps.BotID)] = at
			}
		}
		if len(rooms) == 0 {
			return nil
		}
		rows, err := r.Threads(store.ThreadQuery{IDs: slices.Sorted(maps.Keys(rooms))})
		for _, t := range rows {
			if saved[t.ID], err = room.Decode(t.State[channel.AgentName(w.conn.host.Name())]); err != nil {
				return err
			}
		}
		return err
	})
	if err != nil {
		return room.FirstRedraw, err
	}
	wait = room.CheckInterval
	for thread, at := range rooms {
		var due []room.Action
		w.conn.rooms.update(at, func(s *room.State) {
			var next time.Duration
			due, next = s.Check(decided, saved[thread], time.Now())
			wait = min(wait, next)
		})
		for _, a := range due {
			if err := w.conn.request(ctx, at, fmt.Sprintf("redraw/%s/%d", a.Ticket, a.Try),
				map[string]string{labelDecided: a.Ticket}); err != nil {
				return wait, err
			}
		}
	}
	return wait, nil
}
