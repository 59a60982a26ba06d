package api

import (
	"encoding/json"
	"time"

	"mailroom"
)

// ScheduleSpec says when a schedule sends its message, and where to. It has exactly one of cron, every and at.
type ScheduleSpec struct {
	Cron   string     `json:"cron,omitempty" example:"0 7 * * 1-5" doc:"Minute, hour, day of month, month, day of week."`
	Every  string     `json:"every,omitempty" example:"" doc:"An interval of 1m or more: a grid through anchor."`
	Anchor *time.Time `json:"anchor,omitempty" doc:"A time of the grid. Default: when the schedule was made."`
	At     string     `json:"at,omitempty" example:"" doc:"Once: a time, or a duration from now on such as 30m."`
	Zone   string     `json:"zone,omitempty" example:"Europe/Berlin" doc:"Time zone of cron. Default: UTC."`
	Quiet  string     `json:"quiet,omitempty" example:"" doc:"Of each day, in zone: nothing is sent. Such as 22:00-07:00."`
	Start  *time.Time `json:"start,omitempty" doc:"Nothing is sent before."`
	End    *time.Time `json:"end,omitempty" doc:"Nothing is sent after."`
	Jitter string     `json:"jitter,omitempty" example:"" doc:"Send up to this much later, to spread schedules."`

	Thread   string            `json:"thread,omitempty" maxLength:"200" doc:"Default: a new thread each time."`
	Agent    string            `json:"agent,omitempty" maxLength:"200" doc:"As in a submit."`
	Text     string            `json:"text" minLength:"1" doc:"The message."`
	Priority *int              `json:"priority,omitempty" minimum:"0" maximum:"255" doc:"As in a submit."`
	Timeout  string            `json:"timeout,omitempty" example:"" doc:"Of each run, such as 2h. Default: none."`
	Options  json.RawMessage   `json:"options,omitempty" doc:"As in a submit."`
	Metadata map[string]string `json:"metadata,omitempty" doc:"As in a submit. The keys schedule and nominal are set."`

	SilentWord string `json:"silent_word,omitempty" example:"" doc:"A reply of this word alone is not delivered to a chat."`
	Busy       string `json:"busy,omitempty" enum:"queue,steer,skip" doc:"On a busy thread. Default: queue."`
	Overlap    string `json:"overlap,omitempty" enum:"skip,one,all" doc:"While a run of it is open. Default: skip."`
	CatchUp    string `json:"catch_up,omitempty" enum:"one,none,all" doc:"After an outage. Default: one."`
	Window     string `json:"window,omitempty" example:"" doc:"How late a message may be. Default: 1h; for at 168h."`
	PauseAfter *int   `json:"pause_after,omitempty" minimum:"0" doc:"Failures in a row that pause it; 0: none. Default: 5."`
}

// PutSchedule makes a schedule, or changes it.
type PutSchedule struct {
	Name string       `json:"name" minLength:"1" maxLength:"60" example:"report" doc:"Letters, digits, dots, hyphens, underscores."`
	Spec ScheduleSpec `json:"spec" doc:"When it sends, what, and where to."`
	Own  bool         `json:"own,omitempty" doc:"It is one of the 20 own schedules of spec.thread, and ends with that thread."`
}

// Schedule is a schedule and what has become of its messages.
type Schedule struct {
	Name      string           `json:"name" doc:"Unique for its owner."`
	Owner     string           `json:"owner" doc:"The token whose rights it uses. It is paused when that token ends."`
	Log       string           `json:"log" doc:"Id of its thread, whose log has all that was sent or skipped."`
	Spec      ScheduleSpec     `json:"spec" doc:"When it sends, what, and where to, with the defaults filled in."`
	Note      string           `json:"note,omitempty" doc:"What people often read otherwise in the times."`
	NextAt    *time.Time       `json:"next_at" doc:"When the next message is sent; null: never, or while it is paused."`
	Next      []time.Time      `json:"next" doc:"The next ten times, without jitter."`
	Paused    *SchedulePause   `json:"paused" doc:"Why it is paused; null: it is not."`
	FromFile  bool             `json:"from_file" doc:"mailroom.toml has it, so only the file changes or removes it."`
	Sent      int64            `json:"sent" doc:"Messages that were sent."`
	Skipped   int64            `json:"skipped" doc:"Messages that were skipped."`
	Failures  int              `json:"failures" doc:"Runs in a row that failed."`
	Open      []string         `json:"open" doc:"Ids of the runs that were sent and have not ended."`
	Results   []ScheduleResult `json:"results" doc:"The last ten ends and skips, oldest first."`
	CreatedAt time.Time        `json:"created_at" doc:"When it was made."`
}

// ScheduleChanged is what a change of a schedule leads to.
type ScheduleChanged struct {
	Name   string         `json:"name" doc:"Name of the schedule."`
	Note   string         `json:"note,omitempty" doc:"What people often read otherwise in the times."`
	NextAt *time.Time     `json:"next_at" doc:"When the next message is sent; null: never, or while it is paused."`
	Paused *SchedulePause `json:"paused" doc:"Why it is paused; null: it is not."`
	Open   []string       `json:"open" doc:"Ids of the runs that were sent and have not ended."`
}

// Changed returns what a change led to.
func (s *Schedule) Changed() ScheduleChanged {
	return ScheduleChanged{Name: s.Name, Note: s.Note, NextAt: s.NextAt, Paused: s.Paused, Open: s.Open}
}

// SchedulePause is why a schedule is paused.
type SchedulePause struct {
	At   time.Time `json:"at" doc:"Since when."`
	By   string    `json:"by" doc:"A token, or server."`
	Note string    `json:"note,omitempty" doc:"Why."`
}

// ScheduleResult is what became of a message, or of several that were skipped.
type ScheduleResult struct {
	Nominal time.Time       `json:"nominal" doc:"Its time; the last one of several."`
	Run     string          `json:"run,omitempty" doc:"The run that it started."`
	Status  mailroom.Status `json:"status,omitempty" doc:"How the run ended."`
	Skipped string          `json:"skipped,omitempty" doc:"missed, quiet, superseded, overlap, paused, busy, cancelled or refused."`
	Count   int             `json:"count,omitempty" doc:"How many were skipped, if it was not one."`
	Error   string          `json:"error,omitempty" doc:"Why the run failed, or the message was refused."`
}

// PauseSchedule pauses a schedule.
type PauseSchedule struct {
	Note string `json:"note,omitempty" maxLength:"500" doc:"Why, for people."`
}

// OwnSchedules is the answer of a thread's own schedules to a request: the one that was made or cancelled, or all open
// ones.
type OwnSchedules struct {
	Refused string        `json:"refused,omitempty" doc:"Why nothing was done."`
	Items   []OwnSchedule `json:"items" doc:"The schedules, by number."`
}

// OwnSchedule is an open schedule of a thread, which its runs or the users of its chat have made.
type OwnSchedule struct {
	Number   int        `json:"number" doc:"Of the open ones of the thread, from 1; it is used again."`
	Name     string     `json:"name" doc:"Unique in the thread; the number if none was given."`
	Schedule string     `json:"schedule" doc:"Its name among all schedules of the owner."`
	When     string     `json:"when,omitempty" doc:"Its times: cron, an interval, or one time."`
	Zone     string     `json:"zone,omitempty" doc:"Time zone of cron."`
	Text     string     `json:"text,omitempty" doc:"The first 200 characters of its message."`
	NextAt   *time.Time `json:"next_at,omitempty" doc:"When the next message is sent."`
	Paused   string     `json:"paused,omitempty" doc:"Why it is paused."`
}
