package plan

import (
	"time"

	"mailroom/api"
	"mailroom/internal/reserved"
	"mailroom/internal/setting"
)

// ReadSpec returns the spec of a request, with errors that name its fields. now is the time of a duration in At.
func ReadSpec(s *api.ScheduleSpec, now time.Time) (out Spec, err error) {
	out = Spec{
		Cron: s.Cron, Zone: s.Zone, Thread: s.Thread, Agent: s.Agent, Text: s.Text, Priority: s.Priority,
		Options: s.Options, Metadata: s.Metadata, Busy: Busy(s.Busy), Overlap: Overlap(s.Overlap),
		Quiet: s.Quiet, SilentWord: s.SilentWord,
		CatchUp: CatchUp(s.CatchUp), PauseAfter: DefaultPauseAfter,
	}
	for _, d := range []struct {
		field, text string
		to          *time.Duration
	}{
		{"every", s.Every, &out.Every}, {"jitter", s.Jitter, &out.Jitter}, {"timeout", s.Timeout, &out.Timeout},
		{"window", s.Window, &out.Window},
	} {
		if *d.to, err = api.ReadDuration(d.field, d.text); err != nil {
			return out, err
		}
	}
	for _, t := range []struct{ from, to *time.Time }{{s.Anchor, &out.Anchor}, {s.Start, &out.Start}, {s.End, &out.End}} {
		if t.from != nil {
			*t.to = t.from.UTC()
		}
	}
	at, after, err := api.ReadWhen("at", s.At)
	if err != nil {
		return out, err
	}
	if out.At = at.UTC(); after > 0 {
		out.At = now.Add(after).UTC().Truncate(time.Millisecond)
	}
	if s.At == "" {
		out.At = time.Time{}
	}
	if s.PauseAfter != nil {
		out.PauseAfter = *s.PauseAfter
	}
	return out, out.Check(now)
}

// Show converts a schedule to its wire type.
func Show(s *State, now time.Time) api.Schedule {
	owner, name := reserved.SchedulePlace(s.ID)
	out := api.Schedule{
		Name: name, Owner: owner, Log: s.ID, Spec: showSpec(&s.Spec), Note: s.Spec.Note(), Next: []time.Time{},
		Sent: s.Sent, Skipped: s.Skipped, Failures: s.Failures, Open: s.OpenRuns(), Results: []api.ScheduleResult{},
		CreatedAt: s.CreatedAt, FromFile: s.FromFile(),
	}
	if at := s.NextFire(); !at.IsZero() {
		out.NextAt = &at
	}
	if p := s.Paused; p != nil {
		out.Paused = &api.SchedulePause{At: p.At, By: p.By, Note: p.Note}
	}
	since := s.Since
	if since.Before(now) {
		since = now
	}
	if next, err := s.Spec.NextTimes(since, shownTimes); err == nil && len(next) > 0 {
		out.Next = next
	}
	for _, r := range s.Results {
		out.Results = append(out.Results, api.ScheduleResult{Nominal: r.Nominal, Run: r.Run, Status: r.Status,
			Skipped: string(r.Reason), Count: r.Count, Error: r.Error})
	}
	return out
}

// shownTimes is how many times a schedule shows.
const shownTimes = 10

func showSpec(s *Spec) api.ScheduleSpec {
	out := api.ScheduleSpec{
		Cron: s.Cron, Zone: s.Zone, Thread: s.Thread, Agent: s.Agent, Text: s.Text, Priority: s.Priority,
		Options: s.Options, Metadata: s.Metadata, Busy: string(s.Busy), Overlap: string(s.Overlap),
		Quiet: s.Quiet, SilentWord: s.SilentWord,
		CatchUp: string(s.CatchUp), PauseAfter: &s.PauseAfter,
	}
	if !s.At.IsZero() {
		out.At = s.At.UTC().Format(time.RFC3339Nano)
	}
	for _, d := range []struct {
		from time.Duration
		to   *string
	}{{s.Every, &out.Every}, {s.Jitter, &out.Jitter}, {s.Timeout, &out.Timeout}, {s.Window, &out.Window}} {
		if d.from > 0 {
			*d.to = setting.FormatDuration(d.from)
		}
	}
	for _, t := range []struct {
		from time.Time
		to   **time.Time
	}{{s.Anchor, &out.Anchor}, {s.Start, &out.Start}, {s.End, &out.End}} {
		if !t.from.IsZero() {
			*t.to = &t.from
		}
	}
	return out
}
