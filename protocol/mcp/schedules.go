package mcp

import (
	"cmp"
	"context"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom/api"
	"mailroom/client"
)

type scheduleArgs struct {
	Text   string `json:"text" jsonschema:"the message that you get then"`
	Name   string `json:"name" jsonschema:"a short name; the same name changes the schedule"`
	At     string `json:"at,omitempty" jsonschema:"once: after a duration such as 20m, or at a time such as 2030-01-31T18:00:00Z"`
	Cron   string `json:"cron,omitempty" jsonschema:"again and again: five fields of cron such as 0 7 * * 1-5"`
	Every  string `json:"every,omitempty" jsonschema:"again and again: an interval such as 90m"`
	Zone   string `json:"zone,omitempty" jsonschema:"time zone of cron such as Europe/Berlin; UTC by default"`
	Thread string `json:"thread,omitempty" jsonschema:"the thread that gets the message; yours by default"`
}

type listSchedulesArgs struct {
	Thread string `json:"thread,omitempty" jsonschema:"the thread; yours by default"`
}

type cancelScheduleArgs struct {
	Schedule string `json:"schedule" jsonschema:"the schedule as schedule_message and list_schedules name it"`
}

// scheduled is what the tools show of a schedule.
type scheduled struct {
	Schedule string     `json:"schedule"`
	Text     string     `json:"text,omitempty"`
	When     string     `json:"when,omitempty"`
	NextAt   *time.Time `json:"next_at"`
	Paused   string     `json:"paused,omitempty"`
}

type scheduledList struct {
	Items []scheduled `json:"items"`
}

type cancelled struct {
	Cancelled bool `json:"cancelled"`
}

// addSchedules registers the tools with which an agent sends messages to its own thread later.
func (t *tools) addSchedules(s *sdk.Server) {
	add(s, t, &sdk.Tool{
		Name: "schedule_message", Description: "Send a message to your own thread later, once or again and again. " +
			"Give at, cron or every. A thread has at most 20.",
	}, t.scheduleMessage)
	add(s, t, &sdk.Tool{
		Name: "list_schedules", Description: "List the messages that are scheduled for your thread.",
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true},
	}, t.listSchedules)
	add(s, t, &sdk.Tool{
		Name: "cancel_schedule", Description: "Cancel a scheduled message. What it has sent goes on.",
	}, func(ctx context.Context, c *client.Client, in cancelScheduleArgs) (cancelled, error) {
		if strings.TrimSpace(in.Schedule) == "" {
			return cancelled{}, errArgument("schedule", "is blank")
		}
		err := c.Schedules.Delete(ctx, "", in.Schedule)
		return cancelled{err == nil}, err
	})
}

// ownThread returns the thread that a call names or, without one, the thread of the options.
func (t *tools) ownThread(named string) string { return cmp.Or(named, t.Own, t.Thread) }

func (t *tools) scheduleMessage(ctx context.Context, c *client.Client, in scheduleArgs) (scheduled, error) {
	made, err := c.Schedules.PutOwn(ctx, in.Name, api.ScheduleSpec{Text: in.Text, At: in.At, Cron: in.Cron,
		Every: in.Every, Zone: in.Zone, Thread: t.ownThread(in.Thread)})
	return scheduled{Schedule: made.Name, NextAt: made.NextAt}, err
}

func (t *tools) listSchedules(ctx context.Context, c *client.Client, in listSchedulesArgs) (scheduledList, error) {
	out := scheduledList{Items: []scheduled{}}
	found, err := c.Schedules.ListOwn(ctx, t.ownThread(in.Thread))
	for i := range found {
		s := &found[i]
		one := scheduled{Schedule: s.Name, Text: s.Spec.Text, NextAt: s.NextAt,
			When: cmp.Or(s.Spec.Cron, s.Spec.Every, s.Spec.At)}
		if s.Paused != nil {
			one.Paused = s.Paused.Note
		}
		out.Items = append(out.Items, one)
	}
	return out, err
}
