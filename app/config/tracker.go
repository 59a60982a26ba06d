package config

import (
	"path/filepath"
	"slices"
	"time"

	"mailroom/internal/setting"
	"mailroom/project"
)

// Tracker is the [tracker] table: the tracker whose issues are assigned to agents.
type Tracker struct {
	Folder    string   // project folder, or its .beads
	Agent     string   // default agent of the issues
	Agents    []string // other agents that an issue can select
	Labels    []string // an issue must have all of them
	Types     []string // types of the issues to process; empty: all types
	MaxClaims int      // issues in progress at once
	KeepOpen  bool     // a person closes finished issues
	Interval  time.Duration
	Project   string // issues in progress are reserved in it; "": none
}

// TrackerChannel is the name of the tracker's channel and the prefix of its threads.
const TrackerChannel = "issue"

// newTracker returns the defaults. The default types leave out epics, because the work of an epic is that of its
// children.
func newTracker() *Tracker {
	return &Tracker{Types: []string{"bug", "feature", "task", "chore"}, MaxClaims: 1, Interval: time.Second}
}

func (t *Tracker) settings() []setting.Setting {
	return []setting.Setting{
		setting.New("folder", "Folder of the project with the tracker, or its .beads.", setting.Text(&t.Folder)).
			Require(`missing folder of the project; set one such as folder = "/home/ann/roof"`),
		setting.New("agent", "Default agent of the issues.", setting.AgentName(&t.Agent)).
			Require(`missing agent; set one such as agent = "codex"`),
		setting.New("agents", "Other agents, which an issue selects with the label agent:NAME or its assignee.",
			setting.Each(&t.Agents, "an agent name", setting.ValidName)),
		setting.New("labels", "Labels that an issue must have, all of them.", setting.List(&t.Labels)),
		setting.New("types", "Types of issues to process; empty is all types.", setting.List(&t.Types)),
		setting.New("max_claimed",
			"Maximum number of issues in progress; by default 4 if all agents work in worktrees, else 1.",
			setting.Int(&t.MaxClaims, 1, 10_000)),
		setting.New("when_done",
			"What to do with an issue whose run completed: close it, or comment (it stays in progress for review).",
			setting.Either(&t.KeepOpen, "close", "comment")),
		setting.New("interval", "Interval of checking the issue file.",
			setting.Duration(&t.Interval, 10*time.Millisecond, 10*time.Minute)),
		setting.New("project",
			"Project of this server in which issues are reserved while an agent works on them; empty is none.",
			projectName(&t.Project)),
	}
}

// worktrees reports whether all these agents work in worktrees, so that issues in progress do not meet in files.
func (c *Config) worktrees(agents []string) bool {
	return !slices.ContainsFunc(agents, func(name string) bool {
		a := c.Agents[name]
		return a == nil || a.Workspace != WorkspaceWorktree
	})
}

// projectName is the value of a setting that names a project or is empty.
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
		t.Agents = slices.DeleteFunc(t.Agents, func(s string) bool { return s == t.Agent })
		r.config.Tracker = t
	}
}
