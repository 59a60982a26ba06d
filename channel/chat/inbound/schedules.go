package inbound

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"mailroom/api"
	"mailroom/auth"
	"mailroom/channel/chat"
	"mailroom/internal/display"
	"mailroom/internal/reserved"
	"mailroom/schedule"
	"mailroom/schedule/plan"
	"mailroom/store"
)

// remind schedules a message to the room itself. No agent runs, so it comes whatever the agent does.
func (c *commands) remind(ctx context.Context, e *event, rest string) error {
	zone, err := c.zone(ctx, e)
	if err != nil {
		return err
	}
	at, text, bad := plan.ReadReminder(rest, time.Now(), zone)
	if bad != nil {
		return c.answers.send(ctx, e, "Not understood: "+bad.Error()+".", nil)
	}
	spec := api.ScheduleSpec{At: at.UTC().Format(time.RFC3339), Zone: zone.String(), Text: "Reminder: " + text,
		Metadata: e.Room.Labels()}
	return c.schedule(ctx, e, spec, c.answers.room(e))
}

// repeat schedules messages to the agent of the conversation.
func (c *commands) repeat(ctx context.Context, e *event, rest string) error {
	zone, err := c.zone(ctx, e)
	if err != nil {
		return err
	}
	cron, every, text, bad := plan.ReadRepeated(rest)
	if bad != nil {
		return c.answers.send(ctx, e, "Not understood: "+bad.Error()+".", nil)
	}
	t, err := c.conversations.load(ctx, &e.Event)
	if err != nil {
		return err
	}
	to := c.conversations.thread(&e.Event, t.Since)
	exists := false
	if err := c.host.View(ctx, func(r store.Reader) error {
		rows, err := r.Threads(store.ThreadQuery{IDs: []string{to}})
		exists = len(rows) > 0
		return err
	}); err != nil {
		return err
	}
	if !exists {
		return c.answers.send(ctx, e, "This conversation has no messages yet: write one first.", nil)
	}
	return c.schedule(ctx, e, api.ScheduleSpec{Cron: cron, Every: every, Zone: zone.String(), Text: text, Agent: c.agent,
		Metadata: labels(e)}, to)
}

// schedule makes a schedule of the room, and says when it sends.
func (c *commands) schedule(ctx context.Context, e *event, spec api.ScheduleSpec, to string) error {
	checked := spec
	checked.Thread = to
	now := time.Now()
	read, bad := plan.ReadSpec(&checked, now)
	if bad != nil {
		return c.answers.send(ctx, e, "Not scheduled: "+reason(bad)+".", nil)
	}
	open, err := c.scheduled(ctx, e)
	if err != nil {
		return err
	}
	if len(open) >= plan.MaxOwn {
		return c.answers.send(ctx, e, fmt.Sprintf("Not scheduled: %d are open. Cancel one with %s cancel NUMBER.", len(open),
			c.text(chat.CommandSchedules)), nil)
	}
	user, err := json.Marshal(chat.ScheduleUser{Channel: c.host.Name(), User: e.User.ID, Room: e.Room})
	if err != nil {
		return err
	}
	if err := c.ask(ctx, e, plan.ServerRequest{Request: plan.Request{Op: plan.RequestSet, Spec: &spec},
		User: string(user), To: to}); err != nil {
		return err
	}
	next, err := read.NextTimes(now, 1)
	if err != nil || len(next) == 0 {
		return err
	}
	return c.answers.send(ctx, e, fmt.Sprintf("Scheduled: %s. %s lists and cancels.", showTime(next[0], spec.Zone),
		c.text(chat.CommandSchedules)), nil)
}

// schedules lists the schedules of the room, cancels one, or sets the time zone.
func (c *commands) schedules(ctx context.Context, e *event, rest string) error {
	words := strings.Fields(rest)
	name := c.text(chat.CommandSchedules)
	switch {
	case len(words) == 0:
		return c.listSchedules(ctx, e)
	case len(words) == 2 && words[0] == "cancel":
		open, err := c.scheduled(ctx, e)
		if err != nil {
			return err
		}
		for _, s := range open {
			if strconv.Itoa(numberOf(s)) != words[1] {
				continue
			}
			if err := c.ask(ctx, e, plan.ServerRequest{
				Request: plan.Request{Op: plan.RequestCancel, Name: words[1]}}); err != nil {
				return err
			}
			return c.answers.send(ctx, e, "Cancelled: "+display.Cut(display.Line(s.Spec.Text), 60), nil)
		}
		return c.answers.send(ctx, e, "No schedule has this number. "+name+" lists them.", nil)
	case len(words) == 2 && words[0] == "zone":
		spec := plan.Spec{Zone: words[1]}
		if _, err := spec.Location(); err != nil {
			return c.answers.send(ctx, e, "Not understood: "+reason(err)+".", nil)
		}
		if err := c.conversations.update(ctx, &e.Event, func(t *conversation) bool {
			changed := t.Zone != words[1]
			t.Zone = words[1]
			return changed
		}); err != nil {
			return err
		}
		return c.answers.send(ctx, e, "Times are those of "+words[1]+" now. Open schedules keep theirs.", nil)
	}
	usage := fmt.Sprintf("Usage: %s, %s cancel NUMBER or %s zone Europe/Berlin", name, name, name)
	return c.answers.send(ctx, e, usage, nil)
}

func (c *commands) listSchedules(ctx context.Context, e *event) error {
	open, err := c.scheduled(ctx, e)
	if err != nil {
		return err
	}
	if len(open) == 0 {
		return c.answers.send(ctx, e, fmt.Sprintf("Nothing is scheduled. Use %s in 20m TEXT or %s 0 7 * * 1-5 TEXT.",
			c.text(chat.CommandRemind), c.text(chat.CommandSchedule)), nil)
	}
	var lines []string
	for _, s := range open {
		when := "paused"
		if at := s.NextFire(); !at.IsZero() {
			when = showTime(at, s.Spec.Zone)
		}
		if s.Spec.Cron != "" {
			when += ", " + s.Spec.Cron
		}
		lines = append(lines, fmt.Sprintf("%d. %s: %s", numberOf(s), when, display.Cut(display.Line(s.Spec.Text), 60)))
	}
	lines = append(lines, c.text(chat.CommandSchedules)+" cancel NUMBER cancels one.")
	return c.answers.send(ctx, e, strings.Join(lines, "\n"), nil)
}

// ask submits a request to the schedules of the event's room.
func (c *commands) ask(ctx context.Context, e *event, r plan.ServerRequest) error {
	r.Thread, r.By = c.chatThread(e), e.sender
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return c.host.AskSchedules(ctx, answerKey(e), r.Thread, r.By, raw)
}

// chatThread is the thread under which the schedules of a room are kept, whichever conversation it has.
func (c *commands) chatThread(e *event) string { return c.conversations.thread(&e.Event, "") }

// scheduled returns the open schedules of a room, by number.
func (c *commands) scheduled(ctx context.Context, e *event) (open []*plan.State, err error) {
	book := reserved.BookID(auth.Operator, c.chatThread(e))
	var ids []string
	for n := range plan.MaxOwn {
		ids = append(ids, reserved.OwnScheduleID(book, n+1))
	}
	err = c.host.View(ctx, func(r store.Reader) error {
		open = nil
		byID := map[string]*plan.State{}
		rows, err := r.Threads(store.ThreadQuery{IDs: ids})
		if err != nil {
			return err
		}
		states, err := schedule.Read(r, rows, time.Now())
		for _, s := range states {
			byID[s.ID] = s
		}
		for _, id := range ids {
			if s := byID[id]; s != nil && !s.Over() {
				open = append(open, s)
			}
		}
		return err
	})
	return open, err
}

// numberOf returns the number of a schedule in its book.
func numberOf(s *plan.State) int {
	n, err := strconv.Atoi(s.ID[strings.LastIndexByte(s.ID, '.')+1:])
	if err != nil {
		return 0
	}
	return n
}

// zone returns the time zone of a room: UTC until its users set one.
func (c *commands) zone(ctx context.Context, e *event) (*time.Location, error) {
	t, err := c.conversations.load(ctx, &e.Event)
	if err != nil {
		return nil, err
	}
	spec := plan.Spec{Zone: t.Zone}
	return spec.Location()
}

// showTime formats a time with the name of its zone.
func showTime(at time.Time, zone string) string {
	spec := plan.Spec{Zone: zone}
	if at = at.UTC(); zone != "" {
		if place, err := spec.Location(); err == nil {
			at = at.In(place)
		}
	}
	return at.Format("Mon 2006-01-02 15:04") + " " + at.Location().String()
}
