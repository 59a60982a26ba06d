package config

import (
	"path/filepath"
	"slices"
	"time"

	"mailroom/internal/setting"
	"mailroom/issues/feed"
	"mailroom/project"
)

// Tracker is the [tracker] table: the tracker whose issues are assigned to agents.
type Tracker struct {
	Folder  string       // project folder, or its .beads
	Options feed.Options // without its folder
}

// TrackerChannel is the name of the tracker's channel and the prefix of its threads.
const TrackerChannel = "issue"

func newTracker() *Tracker {
	return &Tracker{Options: feed.Options{Types: feed.DefaultTypes(), MaxClaims: 1, Interval: feed.DefaultInterval}}
}

func (t *Tracker) settings() []setting.Setting {
	o := &t.Options
	return []setting.Setting{
		setting.New("folder", "Folder of the project with the tracker, or its .beads.", setting.Text(&t.Folder)).
			Require(`missing folder of the project; set one such as folder = "/home/ann/roof"`),
		setting.New("agent", "Default agent of the issues.", setting.AgentName(&o.Agent)).
			Require(`missing agent; set one such as agent = "codex"`),
		setting.New("agents", "Other agents, which an issue selects with the label agent:NAME or its assignee.", setting.Each(&o.Agents, "an agent name", setting.ValidName)),
		setting.New("labels", "Labels that an issue must have, all of them.", setting.List(&o.Labels)),
		setting.New("types", "Types of issues to process; empty is all types.", setting.List(&o.Types)),
		setting.New("max_claimed", "Maximum number of issues in progress.", setting.Int(&o.MaxClaims, 1, 10_000)),
		setting.New("when_done", "What to do with an issue whose run completed: close it, or comment (it stays in progress for review).", setting.Either(&o.KeepOpen, "close", "comment")),
		setting.New("interval", "Interval of checking the issue file.", setting.Duration(&o.Interval, 10*time.Millisecond, 10*time.Minute)),
		setting.New("project", "Project of this server in which issues are reserved while an agent works on them; empty is none.", projectName(&o.Project)),
	}
}

// projectName is the name of a project, or empty.
func projectName(p *string) setting.Value {
	return setting.Checked(p, `a project name, such as "default"`, func(s string) bool {
		_, err := project.ThreadID(s)
		return s == "" || err == nil
	})
}

// Dir returns the folder with the issue file.
func (t *Tracker) Dir() string {
	if filepath.Base(t.Folder) == beadsDir {
		return filepath.Clean(t.Folder)
	}
	return filepath.Join(t.Folder, beadsDir)
}

const beadsDir = ".beads"

// tracker reads the [tracker] table.
func (r *reader) tracker(table map[string]any) {
	t, before := newTracker(), len(r.problems)
	r.table("tracker.", table, t.settings())
	if len(r.problems) > before {
		return
	}
	err := setting.CheckRequired(t.settings())
	switch {
	case err != nil:
		r.report("tracker", err.Error())
	case r.config.Channels[TrackerChannel] != nil:
		r.report("channels."+TrackerChannel, "name is reserved for the tracker; choose another name")
	default:
		o := &t.Options
		o.Agents = slices.DeleteFunc(o.Agents, func(s string) bool { return s == o.Agent })
		r.config.Tracker = t
	}
}
