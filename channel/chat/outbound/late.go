package outbound

import (
	"context"
	"fmt"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/chat/room"
	"mailroom/store"
)

// Labels of the channel's own request to say what a run waits for.
const (
	labelLate   = "late"   // the run, which has not answered in time
	labelPaused = "paused" // the run, whose agent is paused
)

const (
	// maxLate bounds the unanswered conversations that are looked at, and the runs that are read to find them.
	maxLate     = 256
	maxLateRead = 1024
	// lateLoad is how often unanswered conversations are read from the store. This finds
	// conversations from before a restart, and conversations that another server received.
	lateLoad = time.Minute
	// leastLook and mostLook bound how often unanswered conversations are looked at.
	leastLook, mostLook = time.Second, 10 * time.Second
)

// lateness sends a room one notice when a run has not answered in time, or when its agent is
// paused. The key of the notice is the run or the pause, so a restart or another server sends none
// twice.
//
// What is due is read from the store, and a submit makes each notice once by its key, over restarts
// and servers. A scheduled run per message would be exact too, and would double the runs of each
// chat.
type lateness struct {
	// Set by New.
	conn   *connection
	within time.Duration // time after which a notice is sent; 0: no notices
	added  chan watch

	// Owned by run.
	open map[string]*unanswered // unanswered conversations by thread
	// from is the key of the run below which the next load reads; 0: the newest run.
	from int64
}

// unanswered is a conversation in which a run has not ended.
type unanswered struct {
	at        chat.Room
	run       string
	since     time.Time // when the wait began: the time of the message, or of a person's last answer to a question
	requested map[string]bool
}

// add watches for a late answer in a conversation in which a user wrote.
func (l *lateness) add(thread string, at chat.Room) {
	if l.within == 0 {
		return
	}
	select {
	case l.added <- watch{thread: thread, room: at}:
	default: // the next load finds the conversation
	}
}

// run looks at the unanswered conversations until ctx ends.
func (l *lateness) run(ctx context.Context) {
	if l.within == 0 {
		return
	}
	l.open = map[string]*unanswered{}
	load := time.NewTimer(0)
	defer load.Stop()
	look := time.NewTicker(min(max(l.within/10, leastLook), mostLook))
	defer look.Stop()
	for {
		var err error
		select {
		case w := <-l.added:
			l.track(w.thread, w.room)
		case <-load.C:
			err = l.load(ctx)
			load.Reset(lateLoad)
		case <-look.C:
			err = l.look(ctx)
		case <-ctx.Done():
			return
		}
		if err != nil && ctx.Err() == nil {
			l.conn.host.Log().Debug("cannot look at unanswered messages; trying again", "error", err)
		}
	}
}

// track adds a conversation. It reports false if there are too many. Where the agent hears everything
// that is said in a group, most messages expect no answer.
func (l *lateness) track(thread string, at chat.Room) bool {
	if l.open[thread] != nil || at.Group && l.conn.access.AllGroupMessages {
		return true
	}
	if len(l.open) >= maxLate {
		return false
	}
	l.open[thread] = &unanswered{at: at, requested: map[string]bool{}}
	return true
}

// load tracks the conversations of the channel whose runs are open. It judges at once those beyond
// maxLate, for which no state is kept: their notices come up to a load later. Each load reads a page
// of the runs, so that many open runs of others hide none.
func (l *lateness) load(ctx context.Context) error {
	via, own := channel.Via(l.conn.host.Name()), channel.AgentName(l.conn.host.Name())
	var late []due
	err := l.conn.host.View(ctx, func(r store.Reader) error {
		open := []mailroom.Status{mailroom.StatusQueued, mailroom.StatusRunning, mailroom.StatusWaiting}
		rows, err := r.Runs(store.RunQuery{Statuses: open, From: l.from, Limit: maxLateRead})
		if err != nil {
			return err
		}
		l.from = 0
		if len(rows) == maxLateRead {
			l.from = rows[len(rows)-1].Key
		}
		beyond := map[string]*unanswered{}
		for _, run := range rows {
			at, ok := chat.RoomOf(run.Metadata)
			if ok && run.Origin.Via == via && run.Agent != own && !l.track(run.Thread, at) {
				beyond[run.Thread] = &unanswered{at: at}
			}
		}
		if late, err = l.find(r, beyond, time.Now()); err != nil {
			return err
		}
		late, err = l.unrequested(r, late)
		return err
	})
	if err != nil {
		return err
	}
	return l.request(ctx, late)
}

// unrequested returns the notices that were not requested before.
func (l *lateness) unrequested(r store.Reader, all []due) (fresh []due, err error) {
	for _, d := range all {
		id := d.at.DeliveryThread(l.conn.host.Name(), l.conn.caps.BotID)
		known, err := r.Keys(store.KeyQuery{Thread: id, Keys: []string{d.key}})
		if err != nil {
			return nil, err
		}
		if len(known) == 0 {
			fresh = append(fresh, d)
		}
	}
	return fresh, nil
}

// look requests the notices that are due.
func (l *lateness) look(ctx context.Context) error {
	if len(l.open) == 0 {
		return nil
	}
	var all []due
	err := l.conn.host.View(ctx, func(r store.Reader) (err error) {
		all, err = l.find(r, l.open, time.Now())
		return err
	})
	if err != nil {
		return err
	}
	return l.request(ctx, all)
}

// request submits a delivery for each notice.
func (l *lateness) request(ctx context.Context, all []due) error {
	for _, d := range all {
		labels := d.at.Labels()
		labels[d.label] = d.run
		err := l.conn.host.Answer(ctx, channel.Answer{
			Room: d.at.Words(l.conn.caps.BotID), Key: d.key, Text: room.UnfinishedMark, Metadata: labels,
		})
		if err != nil {
			return err
		}
		if u := l.open[d.thread]; u != nil {
			u.requested[d.key] = true
		}
	}
	return nil
}

// due is a notice to send now.
type due struct {
	at                      chat.Room
	thread, run, label, key string
}

// find returns the work that is due in conversations, and removes conversations in which nothing is open.
func (l *lateness) find(r store.Reader, all map[string]*unanswered, now time.Time) (found []due, err error) {
	if len(all) == 0 {
		return nil, nil
	}
	var ids []string
	for id := range all {
		ids = append(ids, id)
	}
	threads, err := r.Threads(store.ThreadQuery{IDs: ids})
	if err != nil {
		return nil, err
	}
	open := map[string]*mailroom.Run{}
	for _, t := range threads {
		run, err := firstOpen(r, t)
		if err != nil {
			return nil, err
		}
		open[t.ID] = run
	}
	for id, u := range all {
		run := open[id]
		if run == nil {
			delete(all, id)
			continue
		}
		what, err := u.due(r, run, l.within, now)
		if err != nil {
			return nil, err
		}
		if what.key != "" && !u.requested[what.key] {
			what.at, what.thread, what.run = u.at, id, run.ID
			found = append(found, what)
		}
	}
	return found, nil
}

// firstOpen returns the current run of a thread, or else the next one, or nil.
func firstOpen(r store.Reader, t *mailroom.Thread) (*mailroom.Run, error) {
	queries := []store.RunQuery{{Thread: t.ID, Set: store.RunsQueued, Limit: 1},
		{Thread: t.ID, Set: store.RunsScheduled, Limit: 1}}
	if t.Current != "" {
		queries = []store.RunQuery{{IDs: []string{t.Current}}}
	}
	for _, q := range queries {
		rows, err := r.Runs(q)
		if err != nil {
			return nil, err
		}
		if len(rows) > 0 {
			return rows[0], nil
		}
	}
	return nil, nil
}

// due returns the notice of a run that is due now, without a key if there is none.
func (u *unanswered) due(r store.Reader, run *mailroom.Run, within time.Duration, now time.Time) (due, error) {
	if u.run != run.ID {
		u.run, u.since = run.ID, run.CreatedAt
	}
	if run.Status == mailroom.StatusWaiting {
		open, err := r.Tickets(store.TicketQuery{
			Runs: []string{run.ID}, States: []mailroom.TicketState{mailroom.TicketOpen},
			Kinds: []mailroom.TicketKind{mailroom.TicketApproval, mailroom.TicketInput},
		})
		if err != nil || len(open) > 0 { // the chat shows the question, and it is the user's turn
			u.since = now
			return due{}, err
		}
	}
	if run.Status == mailroom.StatusQueued {
		paused, err := chat.PauseOf(r, run.Agent)
		if err != nil {
			return due{}, err
		}
		if paused != nil {
			return due{label: labelPaused, key: "paused/" + chat.PauseKey(*paused)}, nil
		}
	}
	if now.Sub(u.since) < within {
		return due{}, nil
	}
	return due{label: labelLate, key: "late/" + run.ID}, nil
}

// sendLate says what a run does or waits for, unless it has ended by now. The message becomes the preview of the run:
// the text of the agent replaces it, so that nothing of it stays in the chat.
func (x *attempt) sendLate(ctx context.Context, label string) error {
	id := x.delivery.Run.Metadata[label]
	var text, why, pause string
	err := x.conn.host.View(ctx, func(r store.Reader) (err error) {
		text, pause, why, err = x.lateText(r, label, id)
		return err
	})
	switch {
	case err != nil:
		return err
	case why != "" && len(x.receipts) == 0:
		return x.endUnsent(ctx, why)
	}
	m := outgoing{n: 1, chunk: chat.Chunk{Text: text}, priority: chat.PriorityMessage}
	m.Text, m.Notice = text, true
	got, err := x.sendMessage(ctx, m)
	if err != nil {
		return err
	}
	if pause != "" {
		x.saved.KnownPause = pause
	}
	if got.ID != "" && x.conn.caps.Edits && why == "" {
		x.saved.AddPreview(room.Preview{Run: id, ID: got.ID})
		x.view(func(v *room.State) { v.PreviewSent(id, got.ID, text) })
	}
	return nil
}

// unknownPause returns the sentence about the agent's pause that a failed run led to, "" if the agent is not paused
// or the room knows of the pause.
func (x *attempt) unknownPause(ctx context.Context) (text string, err error) {
	run := x.delivery.Run
	if run.Status != mailroom.StatusFailed {
		return "", nil
	}
	err = x.conn.host.View(ctx, func(r store.Reader) error {
		p, err := chat.PauseOf(r, run.Agent)
		if err == nil && p != nil && !p.Probe.IsZero() && x.saved.KnownPause != chat.PauseKey(*p) {
			x.saved.KnownPause = chat.PauseKey(*p)
			text = "\n(Further messages to " + run.Agent + " wait: it cannot work at present. The next try is at " +
				chat.Clock(p.Probe) + ".)"
		}
		return err
	})
	return text, err
}

// lateText returns the text of a message about a run, the pause that it announces, or why no
// message is sent.
func (x *attempt) lateText(r store.Reader, label, id string) (text, pause, why string, err error) {
	rows, err := r.Runs(store.RunQuery{IDs: []string{id}})
	switch {
	case err != nil:
		return "", "", "", err
	case len(rows) == 0 || rows[0].Status.Finished():
		return "", "", "the run has ended by now", nil
	case x.saved.PreviewMessage(id) != "":
		return "", "", "the chat shows what the run does", nil
	}
	run := rows[0]
	if label == labelPaused {
		paused, err := chat.PauseOf(r, run.Agent)
		switch {
		case err != nil:
			return "", "", "", err
		case paused == nil:
			return "", "", "the agent works again", nil
		case x.saved.KnownPause == chat.PauseKey(*paused):
			return "", "", "the chat knows of the pause", nil
		}
		return "(" + run.Agent + " " + chat.DescribePause(*paused) + ")", chat.PauseKey(*paused), "", nil
	}
	if text, err = chat.DescribeRun(r, run, time.Now()); err != nil {
		return "", "", "", err
	}
	behind, err := r.Count(store.CountQuery{Thread: run.Thread, Set: store.RunsQueued, Most: maxLate})
	if n := behind.Sum(); n > 0 && !run.NeverStarted() {
		text += fmt.Sprintf(" Behind it in the queue: %d.", n)
	}
	return "(No answer yet: " + run.Agent + " " + text + ")", "", "", err
}
