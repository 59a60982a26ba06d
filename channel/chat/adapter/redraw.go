package adapter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"mailroom"
	"mailroom/bus"
	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/chat/chunk"
	"mailroom/channel/chat/limiter"
	"mailroom/channel/chat/question"
	"mailroom/entry"
	"mailroom/store"
)

// maxRedrawWait bounds how long other deliveries to a room wait for a question's redraw.
const maxRedrawWait = 10 * time.Second

// redraw edits the questions of the room that were decided. It returns an error only if a retry
// is due soon; otherwise the next delivery redraws what is left.
func (x *attempt) redraw(ctx context.Context) error {
	if len(x.state.Asked) == 0 || !x.caps.Edits {
		return nil
	}
	shown := map[string]askedMessage{}
	var list []string
	for _, a := range x.state.Asked {
		shown[a.Ticket] = a
		list = append(list, a.Ticket)
	}
	rows, err := x.tickets(ctx, list...)
	for _, k := range rows {
		if err != nil {
			break
		}
		if k.State == mailroom.TicketOpen {
			continue
		}
		a := shown[k.ID]
		all := chunk.Split(question.Outcome(k, func(by string) string { return by }), x.caps, 0)
		if len(all) > 0 {
			err = x.limiter.Do(ctx, x.room, x.caps, limiter.PriorityQuestion, func(ctx context.Context) error {
				return x.platform.Edit(ctx, x.room, a.ID, chat.Message{Text: all[0].Text})
			})
		}
		if err == nil || isRefused(err) {
			x.state.dropMessage(a.ID)
			err = nil
		}
	}
	if errors.Is(err, limiter.ErrPostponed) && mailroom.AsFailure(err).RetryAfter <= maxRedrawWait {
		return err
	}
	if err != nil {
		x.host.Log().Debug("could not redraw question", "error", err)
	}
	return nil
}

const (
	// questionCheckInterval is the time after which open questions are checked although no commit
	// was announced: an announcement may be lost.
	questionCheckInterval = time.Minute
	// redrawGrace is the time from a decision to its redraw. A decision by button and a reply of the
	// agent redraw the question in their own delivery; so a question must be seen decided twice
	// before it gets a delivery for the redraw.
	redrawGrace = time.Second
	// questionNotices is the number of commits that are buffered while questions are checked.
	questionNotices = 16
	// maxWatchedQuestions bounds the questions that are checked. Others are redrawn with the next
	// delivery to their room.
	maxWatchedQuestions = 256
	// maxRedraws bounds the redraw deliveries of a question. The first retry comes after
	// firstRedraw, and the delay doubles.
	maxRedraws  = 5
	firstRedraw = 10 * time.Second
)

// labelDecided marks a delivery that only redraws the questions of its room. Its value is the
// decided ticket.
const labelDecided = "decided"

// watchedQuestion is a question that is shown as open.
type watchedQuestion struct {
	ticket string
	thread string // of the conversation
	room   chat.Room

	seen  bool      // it was seen decided
	tries int       // redraw deliveries
	next  time.Time // earliest next one
}

// watchQuestion watches a question until it is redrawn.
func (s *shared) watchQuestion(q watchedQuestion) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, already := s.questions[q.ticket]; !already && len(s.questions) < maxWatchedQuestions {
		s.questions[q.ticket] = &q
		select {
		case s.asked <- struct{}{}:
		default: // refreshQuestions has a signal that it did not take yet
		}
	}
}

// mayDecide reports whether a commit may have decided a watched question.
func (s *shared) mayDecide(n bus.Notice) bool {
	ends := func(e mailroom.Entry) bool {
		switch e.Kind {
		case entry.KindTicketDecided, entry.KindTicketExpired, entry.KindCompleted, entry.KindFailed, entry.KindCancelled:
			return true
		}
		return false
	}
	if !slices.ContainsFunc(n.Entries, ends) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.questions {
		if q.thread == n.Thread {
			return true
		}
	}
	return false
}

// watchedQuestions returns the tickets of the watched questions.
func (s *shared) watchedQuestions() (tickets []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.questions {
		tickets = append(tickets, id)
	}
	return tickets
}

// refreshQuestions redraws watched questions once they are decided, until ctx ends. It is best
// effort: each delivery to their room redraws them too.
func (o *outbound) refreshQuestions(ctx context.Context) {
	if !o.caps.Edits {
		return
	}
	if err := o.loadQuestions(ctx); err != nil && ctx.Err() == nil {
		o.host.Log().Debug("cannot load open questions; they refresh with the next delivery", "error", err)
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
	for o.awaitQuestionCheck(ctx, look, commits) {
		if len(o.watchedQuestions()) == 0 {
			stop()
		} else if commits == nil && o.options.Commits != nil {
			commits = o.options.Commits.SubscribeEntries("", questionNotices)
		}
		wait, err := o.redrawDecided(ctx)
		if err != nil && ctx.Err() == nil {
			o.host.Log().Debug("cannot check open questions; they refresh with the next delivery", "error", err)
		}
		look.Reset(wait)
	}
}

// awaitQuestionCheck waits until the questions must be checked. It returns false once ctx ends.
func (o *outbound) awaitQuestionCheck(ctx context.Context, look *time.Timer, commits *bus.Subscription) bool {
	var notices <-chan bus.Notice
	if commits != nil {
		notices = commits.C
	}
	for {
		select {
		case n := <-notices:
			if commits.Lost() || o.mayDecide(n) {
				return true
			}
		case <-o.asked:
			return true
		case <-look.C:
			return true
		case <-ctx.Done():
			return false
		}
	}
}

// loadQuestions watches the questions that were open when the process started.
func (o *outbound) loadQuestions(ctx context.Context) error {
	var open []*mailroom.Ticket
	rooms := map[string]chat.Room{} // by conversation thread
	err := o.host.View(ctx, func(r store.Reader) (err error) {
		open, err = r.Tickets(store.TicketQuery{
			States: []mailroom.TicketState{mailroom.TicketOpen}, Kinds: []mailroom.TicketKind{mailroom.TicketApproval, mailroom.TicketInput}, Limit: maxWatchedQuestions,
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
			if at, ok := chat.RoomOfThread(o.host.Name(), o.caps.BotID, t.DeliverTo); ok {
				rooms[t.ID] = at
			}
		}
		return err
	})
	for _, k := range open {
		if at, here := rooms[k.Thread]; here {
			o.watchQuestion(watchedQuestion{ticket: k.ID, thread: k.Thread, room: at})
		}
	}
	return err
}

// redrawDecided requests a redraw of decided questions that are still shown as open. It returns the
// time until the next check.
func (o *outbound) redrawDecided(ctx context.Context) (wait time.Duration, err error) {
	ids := o.watchedQuestions()
	if len(ids) == 0 {
		return questionCheckInterval, nil
	}
	over, shown := map[string]bool{}, map[string]bool{} // by ticket
	err = o.host.View(ctx, func(r store.Reader) error {
		rows, err := r.Tickets(store.TicketQuery{IDs: ids})
		if err != nil {
			return err
		}
		for _, id := range ids {
			over[id] = true // also for a deleted ticket
		}
		for _, k := range rows {
			over[k.ID] = k.State != mailroom.TicketOpen
		}
		return o.findStillShown(r, over, shown)
	})
	if err != nil {
		return firstRedraw, err
	}
	due, wait := o.dueRedraws(over, shown, time.Now())
	for _, q := range due {
		labels := q.room.Labels()
		labels[labelDecided] = q.ticket
		err := o.host.Answer(ctx, channel.Answer{
			Room: q.room.Words(o.caps.BotID), Key: fmt.Sprintf("redraw/%s/%d", q.ticket, q.tries), Text: unfinishedMark, Later: true, Metadata: labels,
		})
		if err != nil {
			return wait, err
		}
	}
	return wait, nil
}

// findStillShown sets shown for the decided tickets whose question is still shown as open.
func (o *outbound) findStillShown(r store.Reader, over, shown map[string]bool) error {
	o.mu.Lock()
	var rooms []string
	for id, q := range o.questions {
		if over[id] {
			rooms = append(rooms, channel.DeliveryThreadID(channel.ThreadID(o.host.Name(), q.room.Words(o.caps.BotID)...)))
		}
	}
	o.mu.Unlock()
	if len(rooms) == 0 {
		return nil
	}
	slices.Sort(rooms)
	rows, err := r.Threads(store.ThreadQuery{IDs: slices.Compact(rooms)})
	for _, t := range rows {
		k, err := decodeRoomState(t.State[channel.AgentName(o.host.Name())])
		if err != nil {
			return err
		}
		for _, a := range k.Asked {
			shown[a.Ticket] = true
		}
	}
	return err
}

// dueRedraws returns the questions to redraw now, and the time until the next check. It stops
// watching those that were redrawn or tried too often.
func (s *shared) dueRedraws(over, shown map[string]bool, now time.Time) (list []watchedQuestion, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait = questionCheckInterval
	for id, q := range s.questions {
		switch {
		case !over[id]:
		case !shown[id], q.tries == maxRedraws && !now.Before(q.next):
			delete(s.questions, id)
		case !q.seen:
			q.seen, q.next = true, now.Add(redrawGrace)
			wait = min(wait, redrawGrace)
		case now.Before(q.next):
			wait = min(wait, q.next.Sub(now))
		default:
			q.tries++
			q.next = now.Add(firstRedraw << (q.tries - 1))
			wait = min(wait, q.next.Sub(now))
			list = append(list, *q)
		}
	}
	return list, wait
}
