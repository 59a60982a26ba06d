package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mailroom"
	"mailroom/channel/tracker"
)

// Tracker is the [tracker] table: a tracker whose issues are given to agents.
type Tracker struct {
	Folder     string   // of the project, or its .beads
	Agent      string   // that issues are given to
	Agents     []string // others that an issue can choose
	Labels     []string // that an issue needs
	Types      []string // of issues that are given; none: all
	MaxClaimed int      // in progress at once
	WhenDone   string   // WhenDoneClose or WhenDoneComment
	Interval   time.Duration
	Project    string // in which issues are reserved; "": none
}

// TrackerChannel is the name of the tracker's channel. The threads of its issues
// begin with it.
const TrackerChannel = "issue"

// What is done with an issue whose run has completed.
const (
	WhenDoneClose   = "close"
	WhenDoneComment = "comment"
)

func newTracker() *Tracker {
	return &Tracker{Types: tracker.DefaultTypes(), MaxClaimed: 1, WhenDone: WhenDoneClose, Interval: tracker.DefaultInterval}
}

func (t *Tracker) settings() []setting {
	return []setting{
		{"folder", "Folder of the project whose issues are given to agents, or its .beads.", text(&t.Folder)},
		{"agent", "Agent that they are given to.", name(&t.Agent)},
		{"agents", "Other agents that an issue may be given to: by the label agent:NAME, or because it is assigned to one.", names(&t.Agents)},
		{"labels", "Labels that an issue needs, all of them, to be given to an agent.", list(&t.Labels)},
		{"types", "Types of issues that are given to agents; empty is all of them.", list(&t.Types)},
		{"max_claimed", "Issues in progress at once.", number(&t.MaxClaimed, 1, 10_000)},
		{"when_done", "close closes an issue whose run has completed; comment leaves it in progress, for a person to look at.", oneOf(&t.WhenDone, WhenDoneClose, WhenDoneComment)},
		{"interval", "How often the file is looked at.", duration(&t.Interval, 10*time.Millisecond, 10*time.Minute)},
		{"project", "Project of this server in which issues are reserved while agents work on them, for agents in clones; empty is none.", project(&t.Project)},
	}
}

// names is a list of agents.
func names(p *[]string) value {
	v := list(p)
	set := v.set
	v.set = func(given any) error {
		before := *p
		if err := set(given); err != nil {
			return err
		}
		for _, s := range *p {
			if !validName(s) {
				*p = before
				return invalidValue(s, "a name of an agent")
			}
		}
		return nil
	}
	return v
}

// project is the name of one, or nothing.
func project(p *string) value {
	return checked(p, `a name of a project, such as "default"`, func(s string) bool {
		_, err := mailroom.ProjectThread(s)
		return s == "" || err == nil
	})
}

// Dir is the folder in which the file is.
func (t *Tracker) Dir() string {
	if filepath.Base(t.Folder) == beadsDir {
		return filepath.Clean(t.Folder)
	}
	return filepath.Join(t.Folder, beadsDir)
}

const beadsDir = ".beads"

// tracker reads the table.
func (r *reader) tracker(v any) {
	table, ok := v.(map[string]any)
	if !ok {
		r.report("tracker", "it is not a table; write [tracker]")
		return
	}
	t, before := newTracker(), len(r.problems)
	r.table("tracker.", table, t.settings())
	if len(r.problems) > before {
		return
	}
	switch {
	case t.Folder == "":
		r.report("tracker", `it needs the folder of a project, such as folder = "/home/ann/roof"`)
	case t.Agent == "":
		r.report("tracker", `it needs an agent, such as agent = "codex"`)
	case r.config.Channels[TrackerChannel] != nil:
		r.report("channels."+TrackerChannel, "the tracker's channel has this name: choose another one")
	default:
		t.Agents = slices.DeleteFunc(t.Agents, func(s string) bool { return s == t.Agent })
		r.config.Tracker = t
	}
}

// trackerTable prints it.
func (c *Config) trackerTable(b *strings.Builder) {
	if c.Tracker != nil {
		fmt.Fprint(b, "\n[tracker]\n")
		c.table(b, "tracker.", c.Tracker.settings(), true)
	}
}

// trackerObject is it in JSON, nil if there is none.
func (c *Config) trackerObject() map[string]any {
	if c.Tracker == nil {
		return nil
	}
	table := map[string]any{}
	for _, s := range c.Tracker.settings() {
		table[s.key] = s.value.get()
	}
	return table
}
