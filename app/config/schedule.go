package config

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"mailroom"
	"mailroom/api"
	"mailroom/internal/display"
	"mailroom/internal/reserved"
	"mailroom/internal/setting"
	"mailroom/schedule/plan"
)

// scheduleTable is one [schedules.NAME] table: a message of the operator at its times.
type scheduleTable struct {
	spec       api.ScheduleSpec
	pauseAfter int
	// Spec is what the table says, checked.
	Spec plan.Spec
}

// newSchedule returns a schedule with the defaults.
func newSchedule() *scheduleTable { return &scheduleTable{pauseAfter: plan.DefaultPauseAfter} }

func (s *scheduleTable) settings() []setting.Setting {
	t := &s.spec
	return []setting.Setting{
		setting.New("cron", `Times: minute, hour, day of month, month, day of week, such as "0 7 * * 1-5".`,
			oneLine(&t.Cron, `five fields such as "0 7 * * 1-5"`)),
		setting.New("every", "An interval of 1m or more, instead of cron.", oneLine(&t.Every, aDuration)),
		setting.New("at", "One time, instead of cron, such as 2030-01-31T18:00:00Z.", moment(&t.At)),
		setting.New("zone", `Time zone of cron, such as "Europe/Berlin"; empty is UTC.`, setting.Text(&t.Zone)),
		setting.New("quiet", `Part of each day, in zone, in which nothing is sent, such as "22:00-07:00".`,
			oneLine(&t.Quiet, `a window such as "22:00-07:00"`)),
		setting.New("agent", "Agent that gets the message; empty is the agent of the thread.", setting.Text(&t.Agent)),
		setting.New("thread", "Thread that gets the message; empty is a new one each time.", setting.Text(&t.Thread)),
		setting.New("text", "The message.", anyText(&t.Text)).Require("missing text; set it to the message that is sent"),
		setting.New("silent_word", "A reply of this word alone is not delivered to a chat, such as HEARTBEAT_OK.",
			oneLine(&t.SilentWord, "a word")),
		setting.New("busy", "If other work keeps the thread busy: queue, steer or skip; empty is queue.",
			setting.Text(&t.Busy)),
		setting.New("overlap", "If a run of the schedule is open: skip, one or all; empty is skip.",
			setting.Text(&t.Overlap)),
		setting.New("catch_up", "After a time without a server: one, none or all; empty is one.",
			setting.Text(&t.CatchUp)),
		setting.New("window", "How late a message may be sent; empty is 1h, and a week for at.",
			oneLine(&t.Window, aDuration)),
		setting.New("jitter", "Send up to this much later, to spread schedules of the same times.",
			oneLine(&t.Jitter, aDuration)),
		setting.New("timeout", "How long each run may take; empty is no bound.", oneLine(&t.Timeout, aDuration)),
		setting.New("pause_after", "Failed runs in a row that pause the schedule; 0 is none.",
			setting.Int(&s.pauseAfter, 0, 1_000_000)),
	}
}

// read sets Spec, or returns what is wrong and the key of that. now is used to see whether the times ever come.
func (s *scheduleTable) read(now time.Time) (key, what string) {
	if s.spec.At != "" {
		at, err := time.Parse(time.RFC3339, s.spec.At)
		if err != nil {
			return "at", fmt.Sprintf("invalid value %q: use a time such as 2030-01-31T18:00:00Z, because a duration would "+
				"begin at each start", s.spec.At)
		}
		if !at.After(now) { // it was sent, and its table is still there
			now = at.Add(-time.Second)
		}
	}
	spec := s.spec
	spec.PauseAfter = &s.pauseAfter
	var err error
	if s.Spec, err = plan.ReadSpec(&spec, now); err == nil {
		return "", ""
	}
	if e, ok := errors.AsType[*mailroom.Error](err); ok && len(e.Fields) == 1 {
		if what = e.Fields[0].Message; e.Fields[0].Value != "" {
			what = fmt.Sprintf("%q %s", e.Fields[0].Value, what)
		}
		return e.Fields[0].Location, what
	}
	return "", err.Error()
}

const aDuration = `a duration such as "90m"`

// oneLine is the value of a setting that is checked with the others of its table.
func oneLine(p *string, allowed string) setting.Value {
	return setting.Checked(p, allowed, func(s string) bool { return !strings.ContainsFunc(s, unicode.IsControl) })
}

// moment is the value of a setting that is a time, as a text or a time of TOML.
func moment(p *string) setting.Value {
	text := oneLine(p, "a time such as 2030-01-31T18:00:00Z")
	return setting.Value{Get: text.Get, Set: func(v any) error {
		if t, ok := v.(time.Time); ok {
			v = t.Format(time.RFC3339Nano)
		}
		return text.Set(v)
	}}
}

// anyText is the value of a setting that is a text of several lines.
func anyText(p *string) setting.Value {
	return setting.Checked(p, "a text", func(string) bool { return true })
}

// schedules reads the tables of schedules.
func (r *reader) schedules(tables map[string]any) {
	r.config.set["schedules"] = true
	for _, name := range sorted(tables) {
		key := "schedules." + name
		table, ok := tables[name].(map[string]any)
		if !ok {
			r.report(key, fmt.Sprintf("%q is not a table; use [schedules.NAME] for the settings of one schedule", name))
			continue
		}
		if plan.CheckName(name) != nil {
			r.report(key, "invalid name: use 1 to 60 letters, digits, dots, dashes and underscores")
			continue
		}
		if reserved.IsOwnName(name) {
			r.report(key, "names that begin with of. belong to the schedules that runs make; use another name")
			continue
		}
		s, before := newSchedule(), len(r.problems)
		r.table(key+".", table, s.settings())
		if len(r.problems) > before {
			continue
		}
		if err := setting.CheckRequired(s.settings()); err != nil {
			r.report(key, err.Error())
			continue
		}
		if s.spec.Cron == "" && s.spec.Every == "" && s.spec.At == "" {
			r.report(key, `missing times; set one of cron, every and at, such as cron = "0 7 * * 1-5"`)
			continue
		}
		if of, what := s.read(time.Now()); what != "" {
			if of != "" {
				key += "." + of
			}
			r.report(key, what)
			continue
		}
		r.config.Schedules[name] = s
	}
}

// HasSchedules reports whether the file has a table of schedules, which may be empty.
func (c *Config) HasSchedules() bool { return c.set["schedules"] }

// Changed returns when the file of the configuration was changed, the zero time without a file.
func (c *Config) Changed() time.Time { return c.changed }

// checkSchedules returns the problems of schedules that name agents which do not exist.
func (c *Config) checkSchedules() (found []problem) {
	for _, name := range sorted(c.Schedules) {
		agent := c.Schedules[name].Spec.Agent
		if agent == "" || c.Agents[agent] != nil || mayBeFound(agent) {
			continue
		}
		what := fmt.Sprintf("unknown agent %q", agent)
		if near := display.Suggest(agent, sorted(c.Agents)); near != "" {
			what += fmt.Sprintf(" (did you mean %q?)", near)
		}
		found = append(found, problem{key: "schedules." + name + ".agent", what: what + "; an agent that workers serve " +
			`needs a table [agents.` + setting.TOMLKey(agent) + `] with kind = "remote"`})
	}
	return found
}

// AddSchedule adds a schedule with the defaults, to describe its settings.
func (c *Config) AddSchedule(name string) { c.Schedules[name] = newSchedule() }
