// Package config is what a user may set: one struct with defaults, read from a
// TOML file in which a key or a value that is not understood is an error.
package config

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"mailroom"
	"mailroom/agent/echo"
	"mailroom/agent/exec"
	"mailroom/agent/exec/program"
	"mailroom/agent/tour"
	"mailroom/internal/proc"
	"mailroom/internal/suggest"
)

// Config are the settings of a server. Every one of them has a default, so an
// empty file, or none, is a whole configuration.
type Config struct {
	Listen       string // HOST:PORT; port 0 picks a free one
	DefaultAgent string // of submits to new threads that name none
	LogLevel     slog.Level

	TLSCert     string // file; with TLSKey it speaks https
	TLSKey      string
	BehindProxy bool     // a proxy in front of it encrypts
	Hosts       []string // further names that requests may be addressed to
	Origins     []string // further origins of web pages that may use the API
	Limits      Limits

	Runs          int           // runs at once in this process
	Lease         time.Duration // how long a worker that died keeps its runs
	Renew         time.Duration // how often a worker renews its lease
	Sweep         time.Duration // how often the leases of others are looked at
	StopGrace     time.Duration // from a stop or a passed deadline to the forced end
	ShutdownGrace time.Duration // for runs to finish before they are released
	RunDeadline   time.Duration // of one attempt
	AgentGrace    time.Duration // before due runs of an agent that nobody has fail
	MaxQueued     int           // runs in the queue of one thread; 0: any number
	Retention     time.Duration // of entries; 0: for ever
	Isolation     string        // of agents that say nothing else

	Agents   map[string]*Agent
	Channels map[string]*Channel
	Tracker  *Tracker // nil: none is watched

	ReconnectSettings        // of channels that say nothing else
	WhenAllDown       string // Stay or Exit

	// Command is how the commands for this server are begun, in hints.
	Command string

	// Mark is what processes of agents are marked with, so that they can be
	// found after this one was killed. The data folder gives it, no file does.
	Mark string

	// Data is the data folder, which is hidden from programs; no file gives it.
	Data string

	file string          // it was read from, or ""
	set  map[string]bool // dotted keys that the file or a flag gave
}

// Agent is one [agents.NAME] table. Which of its fields count depends on Kind.
type Agent struct {
	Kind     string        // one of the kinds below, or the name of a program's profile
	Limit    int           // runs of it at once in this process
	Deadline time.Duration // of one attempt

	// Of echo and tour.
	Pace time.Duration // between two words; 0 writes them at once

	// Of exec.
	Command []string // argument vector; no shell

	// Of programs with a profile.
	Program     string   // path, or name that is looked for in PATH
	Model       string   // "" is the program's own choice
	Args        []string // further arguments
	Permissions string   // a mode of the profile

	// Of both.
	Dir          string // it runs in; "" is the server's own
	Env          map[string]string
	EnvAllow     []string      // variables of the server that it may see
	StartTimeout time.Duration // to its first output; 0: none
	IdleTimeout  time.Duration // between two outputs; 0: none
	TotalTimeout time.Duration // 0: none but the deadline
	Confinement
}

// Confinement is what a program is kept from. It is no part of an agent's
// definition: an older version of the agent runs with the present one.
type Confinement struct {
	Isolation    string // one of the values below
	User         string // of the system; "" is the server's own
	MaxProcesses int    // of that user; 0: as many as the server's
	MaxOpenFiles int    // 0: as many as the server's
	MaxFileSize  int    // bytes; 0: any
}

// Values of isolation. Others name one mechanism, which must be there.
const (
	IsolationAuto     = "auto"     // the best that the machine has
	IsolationRequired = "required" // that, and no start without any
)

func isolations() []string {
	return []string{IsolationAuto, IsolationRequired, string(proc.KindNamespace), string(proc.KindLandlock), string(proc.KindNone)}
}

// CheckIsolation refuses what is no value of isolation.
func CheckIsolation(kind string) error {
	if !slices.Contains(isolations(), kind) {
		return fmt.Errorf("unknown isolation %q; use %s", kind, strings.Join(isolations(), ", "))
	}
	return nil
}

func (c *Confinement) settings() []setting {
	return []setting{
		{"isolation", "What keeps it from the server's data: auto is the best that this machine has, required too but no start without any, else namespace, landlock or none.", oneOf(&c.Isolation, isolations()...)},
		{"user", "User of the system that it runs as, for a server that runs as root; empty is the server's own.", text(&c.User)},
		{"max_processes", "Processes of its user, at most; 0 leaves that to the system.", number(&c.MaxProcesses, 0, 10_000_000)},
		{"max_open_files", "Files that one of its processes may have open; 0 leaves that to the system.", number(&c.MaxOpenFiles, 0, 10_000_000)},
		{"max_file_size", "Largest file that it may write; 0B is any size.", size(&c.MaxFileSize, 0, 1<<30)},
	}
}

// Kinds of agents.
const (
	KindEcho  = "echo"
	KindExec  = "exec"
	KindInbox = "inbox"
	KindTour  = "tour"
)

// newAgent returns an agent with the defaults of its kind.
func newAgent(kind string) *Agent {
	a := &Agent{Kind: kind}
	switch kind {
	case KindEcho:
		a.Pace = echo.DefaultPace
	case KindTour:
		a.Pace = tour.DefaultPace
	case KindExec:
		a.EnvAllow = exec.DefaultEnvAllow()
	}
	if p := program.Find(kind); p != nil {
		a.Program, a.Permissions, a.EnvAllow = p.Program, string(p.Modes[0]), exec.EnvAllow(p)
		a.StartTimeout, a.IdleTimeout = exec.DefaultStartTimeout, exec.DefaultIdleTimeout
	}
	if a.IsProgram() {
		a.Isolation = IsolationAuto
	}
	return a
}

// IsProgram reports whether the agent starts a program of the system.
func (a *Agent) IsProgram() bool { return a.Kind == KindExec || program.Find(a.Kind) != nil }

// ProgramAgent returns the settings of an agent that nobody has configured: of a
// program that was found.
func (c *Config) ProgramAgent(p *program.Profile) *Agent {
	a := newAgent(p.Name)
	a.Limit, a.Deadline, a.Isolation = c.Runs, c.RunDeadline, c.Isolation
	return a
}

// kinds are all kinds of agents.
func kinds() []string {
	all := []string{KindEcho, KindExec, KindInbox, KindTour}
	for _, p := range program.All() {
		all = append(all, p.Name)
	}
	return all
}

// Default returns the settings of an empty file.
func Default() *Config {
	c := &Config{
		Listen:            "127.0.0.1:8420",
		DefaultAgent:      KindEcho,
		LogLevel:          slog.LevelInfo,
		Runs:              64,
		Lease:             15 * time.Second,
		Renew:             5 * time.Second,
		Sweep:             time.Second,
		StopGrace:         10 * time.Second,
		ShutdownGrace:     30 * time.Second,
		RunDeadline:       time.Hour,
		AgentGrace:        time.Minute,
		MaxQueued:         mailroom.MaxQueued,
		Limits:            defaultLimits(),
		Agents:            map[string]*Agent{KindEcho: newAgent(KindEcho), KindInbox: newAgent(KindInbox), KindTour: newAgent(KindTour)},
		Channels:          map[string]*Channel{},
		ReconnectSettings: defaultReconnect(),
		WhenAllDown:       AllDownStay,
		Isolation:         IsolationAuto,
		set:               map[string]bool{},
	}
	c.inherit()
	return c
}

// settings returns the top-level keys in the order in which they are printed.
func (c *Config) settings() []setting {
	const most = 365 * 24 * time.Hour
	return []setting{
		{"listen", "Address of the server; port 0 picks a free one.", address(&c.Listen)},
		{"default_agent", "Agent of submits to new threads that name none.", name(&c.DefaultAgent)},
		{"log_level", "Least level that is logged: debug, info, warn or error.", level(&c.LogLevel)},
		{"tls_cert", "File with the certificate, with which it speaks https; read again when it changes.", text(&c.TLSCert)},
		{"tls_key", "File with the key of the certificate.", text(&c.TLSKey)},
		{"behind_proxy", "A proxy in front of the server encrypts what is sent, so it may listen openly without TLS.", flag(&c.BehindProxy)},
		{"hosts", "Names that requests may be addressed to, beside localhost and the address above.", hosts(&c.Hosts)},
		{"origins", "Web pages of other origins that may use the API.", origins(&c.Origins)},
		{"runs", "Runs at once in this process.", number(&c.Runs, 1, 100_000)},
		{"lease", "How long a worker that died keeps its runs.", duration(&c.Lease, time.Second, time.Hour)},
		{"renew", "How often a worker renews its lease.", duration(&c.Renew, 100*time.Millisecond, time.Hour)},
		{"sweep", "How often the leases of other workers are looked at.", duration(&c.Sweep, 10*time.Millisecond, time.Minute)},
		{"stop_grace", "From the request to stop, or a passed deadline, to the forced end of a run.", duration(&c.StopGrace, time.Millisecond, time.Hour)},
		{"shutdown_grace", "How long a shutdown lets runs finish before it releases them.", duration(&c.ShutdownGrace, time.Millisecond, 24*time.Hour)},
		{"run_deadline", "Longest time of one attempt of a run.", duration(&c.RunDeadline, 10*time.Millisecond, most)},
		{"agent_grace", "After this time, due runs of an agent that no worker has fail.", duration(&c.AgentGrace, time.Millisecond, most)},
		{"max_queued", "Runs in the queue of one thread, at most; 0 is any number.", number(&c.MaxQueued, 0, 100_000_000)},
		{"isolation", "isolation of agents that are programs and set none: auto, required, namespace, landlock or none.", oneOf(&c.Isolation, isolations()...)},
		{"retention", "How long entries are kept after their run has ended; 0s keeps them for ever.", duration(&c.Retention, 0, 100*most)},
	}
}

// settings returns the keys of an agent's table that its kind knows.
func (a *Agent) settings() []setting {
	const most = 365 * 24 * time.Hour
	all := []setting{
		{"kind", "echo says what it is told; exec runs a command; inbox keeps messages for who reads them by tool calls; tour shows what a run can do; codex and claude are those programs.", oneOf(&a.Kind, kinds()...)},
		{"limit", "Runs of this agent at once in this process.", number(&a.Limit, 1, 100_000)},
		{"deadline", "Longest time of one attempt.", duration(&a.Deadline, 10*time.Millisecond, most)},
	}
	profile := program.Find(a.Kind)
	if profile != nil {
		all = append(all,
			setting{"program", "Path of the program, or its name in PATH.", text(&a.Program)},
			setting{"args", "Further arguments for it.", list(&a.Args)},
			setting{"model", "Model it uses; empty leaves that to it.", text(&a.Model)},
			setting{"permissions", "What it may do: ask (looks, and a person is asked about the rest), read (looks), edit (changes files in its folder too), all.", oneOf(&a.Permissions, modes(profile)...)},
		)
	}
	switch {
	case a.Kind == KindEcho || a.Kind == KindTour:
		all = append(all, setting{"pace", "Pause between two words; 0s writes them at once.", duration(&a.Pace, 0, time.Hour)})
	case a.Kind == KindExec || profile != nil:
		if profile == nil {
			all = append(all, setting{"command", "Program and its arguments; no shell reads them.", list(&a.Command)})
		}
		all = append(all,
			setting{"dir", "Folder it runs in; empty is the server's own.", text(&a.Dir)},
			setting{"env", "Variables that are set for it.", pairs(&a.Env)},
			setting{"env_allow", "Variables of the server that it may see.", list(&a.EnvAllow)},
			setting{"start_timeout", "Longest time to its first output; 0s is no limit.", duration(&a.StartTimeout, 0, most)},
			setting{"idle_timeout", "Longest time between two outputs; 0s is no limit.", duration(&a.IdleTimeout, 0, most)},
			setting{"total_timeout", "Longest time in all; 0s leaves it to deadline.", duration(&a.TotalTimeout, 0, most)},
		)
		all = append(all, a.Confinement.settings()...)
	}
	return all
}

func modes(p *program.Profile) (names []string) {
	for _, m := range p.Modes {
		names = append(names, string(m))
	}
	return names
}

// check returns what no single value is wrong about.
func (c *Config) check() []problem {
	var found []problem
	if c.Renew > c.Lease/2 { // a worker gives its lease up before its end, and a renewal may come late
		found = append(found, problem{key: "renew", what: fmt.Sprintf(
			"%s is too long for a lease of %s: at most half of it, %s", formatDuration(c.Renew), formatDuration(c.Lease), formatDuration(c.Lease/2))})
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		there, missing := "tls_cert", "tls_key"
		if c.TLSCert == "" {
			there, missing = missing, there
		}
		found = append(found, problem{key: there, what: "it needs " + missing + " beside it"})
	}
	if c.Agents[c.DefaultAgent] == nil && program.Find(c.DefaultAgent) == nil { // a program may be found
		what := fmt.Sprintf("no agent is named %q", c.DefaultAgent)
		if near := suggest.Word(c.DefaultAgent, sorted(c.Agents)); near != "" {
			what += fmt.Sprintf(" (did you mean %q?)", near)
		}
		found = append(found, problem{key: "default_agent", what: what})
	}
	found = append(found, c.checkReconnect()...)
	for _, name := range sorted(c.Agents) {
		a := c.Agents[name]
		if a.Kind == KindExec && (len(a.Command) == 0 || a.Command[0] == "") {
			found = append(found, problem{key: "agents." + name, what: "an exec agent needs a command, such as command = [\"cat\"]"})
		}
		if program.Find(a.Kind) != nil && a.Program == "" {
			found = append(found, problem{key: "agents." + name + ".program", what: "it is empty; give a path, or a name in PATH"})
		}
	}
	return found
}

// File returns the path the settings were read from, "" if there was no file.
func (c *Config) File() string { return c.file }

// SetListen overrides the address, as a flag does.
func (c *Config) SetListen(addr string) error {
	if err := address(&c.Listen).set(addr); err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	c.set["listen"] = true
	return nil
}
