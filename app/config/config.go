// Package config defines the settings of the server. They have defaults and are read from a TOML file and from
// environment variables; an unknown key or an invalid value is an error. The package also has the commands that add a
// channel or a target of alerts to the file.
package config

import (
	"cmp"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"mailroom"
	"mailroom/agent/builtin"
	"mailroom/agent/exec"
	"mailroom/agent/exec/program"
	"mailroom/alert/target"
	"mailroom/internal/budget"
	"mailroom/internal/display"
	"mailroom/internal/retry"
	"mailroom/internal/setting"
)

// Config holds the settings of a server. Every setting has a default, so an empty or
// missing file is a complete configuration.
type Config struct {
	Listen       string // HOST:PORT; port 0 picks a free one
	DefaultAgent string // agent of submits to new threads that name no agent
	LogLevel     slog.Level

	TLSCert     string // file; with TLSKey it enables https
	TLSKey      string
	BehindProxy bool     // a proxy in front of the server provides TLS
	Hosts       []string // further host names that requests may use
	Origins     []string // further origins of web pages that may use the API
	Server      Server
	Limits      Limits
	Store       Store
	Postgres    Postgres
	Bus         Bus
	Node        Node
	Token       Token

	Runs          int            // runs at once in this process
	Lease         time.Duration  // time after which a dead worker loses its runs
	Renew         time.Duration  // how often a worker renews its lease
	Sweep         time.Duration  // interval of checking for expired leases
	StopGrace     time.Duration  // time from a stop or a passed deadline to the forced end
	ShutdownGrace time.Duration  // time for runs to finish before they are released
	RunDeadline   time.Duration  // longest time of one attempt
	LongestRun    time.Duration  // longest time of one attempt whose agent asks for more time
	AgentGrace    time.Duration  // time before due runs of an agent without a worker fail
	MaxQueued     int            // runs in the queue of one thread; 0: unlimited
	Retention     time.Duration  // how long entries are kept; 0: forever
	KeepAudit     time.Duration  // how long the audit log keeps an action; 0: forever
	BudgetZone    *time.Location // in which the days and months of budgets begin
	Label         string         // metadata key by whose values ended runs are summed up too; "": none
	Search        bool           // messages are indexed and can be found
	Isolation     string         // default of agents that set no isolation
	Retry         retry.Policy   // default of agents that set no retries; see Agent.Retry

	Agents    map[string]*Agent
	Channels  map[string]*Channel
	Tracker   *Tracker // nil: no tracker
	Boards    map[string]*Board
	Targets   map[string]*Target
	Rules     map[string]*Rule
	Schedules map[string]*scheduleTable
	prices    map[string]*priceTable

	ReconnectSettings        // defaults of channels that set none
	WhenAllDown       string // AllDownStay or AllDownExit

	// Command is the beginning of a command line for this server, which hints show to users.
	Command string

	// Mark marks the processes of agents, so that the next server finds them after a
	// crash. It comes from the data folder, not from a file.
	Mark string

	// Data is the path of the data folder, which is hidden from the programs of agents. It is no setting of the file.
	Data string

	// Private lists paths with secrets that no setting names, such as the folder of contexts. They are hidden from
	// the programs of agents too.
	Private []string

	// Trust is the file that says which set-up commands of repositories may run, or "" for none. It is no setting of
	// the file.
	Trust string

	kinds   *target.Kinds
	file    string          // path that it was read from, or ""
	changed time.Time       // of the file
	set     map[string]bool // dotted keys that the file, a variable or a flag set
	// variables has the environment variables that override the file, by dotted key.
	variables map[string]string
}

// Agent is one [agents.NAME] table. Kind decides which of its fields are used.
type Agent struct {
	Kind     string        // one of the kinds below, or the name of a program's profile
	Limit    int           // concurrent runs in this process
	Deadline time.Duration // longest time of one attempt
	Retry    retry.Policy  // how failed attempts are retried, unless a worker or a submit says otherwise
	Budget   budget.Limits // what it may use in a day or a month, and each run
	Starts   starts        // over all servers
	Keys     starts        // of an owner with the same concurrency key, over all servers
	KeyFrom  string        // metadata that is the concurrency key of a run without one; "": none

	// For agents of kinds echo and tour.
	Pace time.Duration // between two words; 0 writes them at once

	// For agents of kinds exec and acp.
	Command []string // argument vector; no shell

	// For agents of kind acp.
	Mode string // mode of the agent that each session gets; "": one in which it asks

	// For agents that run a program with a profile.
	Program     string   // path, or name in PATH
	Model       string   // "": the program chooses its model
	Args        []string // further arguments
	Permissions string   // a mode of the profile

	// For agents of kind exec and for programs with a profile.
	Dir          string // working folder; "" is the server's own
	Env          map[string]string
	EnvAllow     []string      // environment variables to pass on
	StartTimeout time.Duration // longest time to the first output; 0: no limit
	IdleTimeout  time.Duration // between two outputs; 0: none
	TotalTimeout time.Duration // longest time of the program; 0: only the deadline limits it
	CallTimeout  time.Duration // between two outputs while a tool works, for programs with a profile; 0: none
	// Options names the options that a submit may pass to the agent; exec.AnyOption allows all.
	Options []string
	// For agents of kind exec: the exit statuses of failures that a repeat cannot mend, and of outages.
	PermanentExits, UnavailableExits []int
	Confinement
}

// Kinds of agents.
const (
	KindEcho  = "echo"
	KindExec  = "exec"
	KindInbox = "inbox"
	KindTour  = "tour"
	// KindRemote is an agent that only remote workers run.
	KindRemote = "remote"
)

// newAgent returns an agent with the defaults of its kind.
func newAgent(kind string) *Agent {
	a := &Agent{Kind: kind, Starts: starts{Burst: 1}, Keys: starts{Burst: 1}}
	switch kind {
	case KindEcho, KindTour:
		a.Pace = builtin.DefaultPace
	case KindExec:
		a.EnvAllow, a.Options = exec.DefaultEnvAllow(), []string{exec.AnyOption}
		a.PermanentExits, a.UnavailableExits = exec.DefaultPermanentExits(), exec.DefaultUnavailableExits()
	}
	if p := a.Profile(); p != nil {
		a.Program, a.Permissions, a.EnvAllow = p.Program, string(p.Modes[0]), exec.EnvAllow(p)
		a.StartTimeout, a.IdleTimeout = exec.DefaultStartTimeout, exec.DefaultIdleTimeout
		a.CallTimeout = exec.DefaultCallTimeout
	}
	if a.IsProgram() {
		a.Isolation, a.Workspace, a.MaxWorktrees = IsolationAuto, workspaceFolder, maxWorktrees
		a.Base, a.PullURL = BaseRemote, gitHubAPI
	}
	return a
}

// IsProgram reports whether the agent starts a program of the system.
func (a *Agent) IsProgram() bool { return a.Kind == KindExec || a.Profile() != nil }

// Profile returns how the agent's program is run, or nil if the agent is no program with a profile.
func (a *Agent) Profile() *program.Profile {
	if a.Kind == program.KindACP {
		return program.NewACP(a.Command, a.Mode)
	}
	return program.Find(a.Kind)
}

// ProgramAgent returns the default settings of an agent for a program that was found but
// is not configured.
func (c *Config) ProgramAgent(p *program.Profile) *Agent {
	return c.found(newAgent(p.Name))
}

// ACPAgent returns the default settings of an agent of kind acp whose command was found but is not configured.
func (c *Config) ACPAgent(command []string) *Agent {
	a := newAgent(program.KindACP)
	a.Command = command
	a.EnvAllow = exec.EnvAllow(a.Profile())
	return c.found(a)
}

func (c *Config) found(a *Agent) *Agent {
	a.Limit, a.Deadline, a.Isolation, a.Retry = c.limitOf(a), c.deadlineOf(a.Kind), c.Isolation, c.Retry
	return a
}

// programDeadline is the default deadline of codex and claude. It is long because their tasks may take hours; the
// idle_timeout ends a program that is stuck.
const programDeadline = 24 * time.Hour

const (
	// maxWorktrees is the default of max_worktrees. A worktree is as large as the files of the repository.
	maxWorktrees = 50
	// worktreeRuns is the default limit of programs that change files in worktrees. Runs do not meet in files there, but
	// each may build and test the whole project.
	worktreeRuns = 4
)

// limitOf returns the limit of concurrent runs of an agent that sets none. Programs that change files get 1, because
// several runs in one folder would interfere: in git's index, in a build, or by reading a change that another run has
// half written.
func (c *Config) limitOf(a *Agent) int {
	if a.Edits() && a.Workspace == WorkspaceWorktree {
		return min(worktreeRuns, c.Runs)
	}
	if a.Edits() {
		return 1
	}
	return c.Runs
}

// Edits reports whether the agent is a program with a profile that changes files without asking.
func (a *Agent) Edits() bool {
	return a.Profile() != nil &&
		(a.Permissions == string(program.ModeEdit) || a.Permissions == string(program.ModeAll))
}

// deadlineOf returns the deadline of an agent that sets none.
func (c *Config) deadlineOf(kind string) time.Duration {
	if (kind == program.KindACP || program.Find(kind) != nil) && !c.set["run_deadline"] {
		return max(programDeadline, c.RunDeadline)
	}
	return c.RunDeadline
}

// kinds returns all kinds of agents.
func kinds() []string {
	all := []string{KindEcho, KindExec, program.KindACP, KindInbox, KindTour, KindRemote}
	for _, p := range program.All() {
		all = append(all, p.Name)
	}
	return all
}

// Default returns the settings of an empty file. Without kinds, a file has no channels and no targets.
func Default(kinds *target.Kinds) *Config {
	c := &Config{
		kinds:         cmp.Or(kinds, &target.Kinds{}),
		Listen:        "127.0.0.1:8420",
		DefaultAgent:  KindEcho,
		LogLevel:      slog.LevelInfo,
		Runs:          64,
		Lease:         15 * time.Second,
		Renew:         5 * time.Second,
		Sweep:         time.Second,
		StopGrace:     10 * time.Second,
		ShutdownGrace: 30 * time.Second,
		RunDeadline:   time.Hour,
		LongestRun:    24 * time.Hour,
		AgentGrace:    time.Minute,
		MaxQueued:     mailroom.MaxQueued,
		KeepAudit:     365 * 24 * time.Hour,
		Limits:        defaultLimits(),
		Store:         Store{Kind: StoreSQLite},
		Postgres:      defaultPostgres(),
		Bus:           Bus{Kind: BusPostgres},
		Node:          Node{StickyGrace: 5 * time.Minute},
		Agents: map[string]*Agent{KindEcho: newAgent(KindEcho), KindInbox: newAgent(KindInbox),
			KindTour: newAgent(KindTour)},
		Channels:          map[string]*Channel{},
		Boards:            map[string]*Board{},
		Targets:           map[string]*Target{},
		Rules:             map[string]*Rule{},
		Schedules:         map[string]*scheduleTable{},
		prices:            map[string]*priceTable{},
		ReconnectSettings: defaultReconnect(),
		Search:            true,
		BudgetZone:        time.UTC,
		WhenAllDown:       AllDownStay,
		Isolation:         IsolationAuto,
		set:               map[string]bool{},
	}
	c.inherit()
	return c
}

// settings returns the top-level keys in the order in which they are printed.
func (c *Config) settings() []setting.Setting {
	const most = 365 * 24 * time.Hour
	return []setting.Setting{
		setting.New("listen", "Address of the server; port 0 picks a free one.", address(&c.Listen)),
		setting.New("default_agent", "Agent for submits to new threads that name no agent.",
			setting.AgentName(&c.DefaultAgent)),
		setting.New("log_level", "Minimum log level: debug, info, warn or error.", level(&c.LogLevel)),
		setting.New("tls_cert", "Certificate file, enables https; reloaded when it changes.", setting.Text(&c.TLSCert)),
		setting.SecretFile("tls_key", "Private key file of the certificate.", &c.TLSKey),
		setting.New("behind_proxy",
			"A proxy in front of the server provides TLS, so the server may listen on a public address without it.",
			setting.Bool(&c.BehindProxy)),
		setting.New("hosts", "Further host names that requests may use, beside localhost and the address above.",
			hosts(&c.Hosts)),
		setting.New("origins", "Further origins of web pages that may use the API.", origins(&c.Origins)),
		setting.New("runs", "Maximum number of concurrent runs in this process.", setting.Int(&c.Runs, 1, 100_000)),
		setting.New("lease", "Time after which a dead worker loses its runs.",
			setting.Duration(&c.Lease, time.Second, time.Hour)),
		setting.New("renew", "How often a worker renews its lease.",
			setting.Duration(&c.Renew, 100*time.Millisecond, time.Hour)),
		setting.New("sweep", "Interval of checking other workers for expired leases.",
			setting.Duration(&c.Sweep, 10*time.Millisecond, time.Minute)),
		setting.New("stop_grace", "Time from a stop request or a passed deadline to the forced end of a run.",
			setting.Duration(&c.StopGrace, time.Millisecond, time.Hour)),
		setting.New("shutdown_grace", "Time that runs have to finish at a shutdown before they are released.",
			setting.Duration(&c.ShutdownGrace, time.Millisecond, 24*time.Hour)),
		setting.New("run_deadline", "Maximum time of one attempt of a run. Unless it is set, codex and claude have 24h.",
			setting.Duration(&c.RunDeadline, 10*time.Millisecond, most)),
		setting.New("max_run_deadline",
			"Maximum time of one attempt whose agent asks for more time at its steps. Below run_deadline or the "+
				"agent's deadline: no more time.", setting.Duration(&c.LongestRun, 10*time.Millisecond, most)),
		setting.New("agent_grace", "Time after which due runs of an agent without a worker fail.",
			setting.Duration(&c.AgentGrace, time.Millisecond, most)),
		setting.New("max_queued", "Maximum number of queued runs of a thread; 0 is unlimited.",
			setting.Int(&c.MaxQueued, 0, 100_000_000)),
		setting.New("isolation",
			"Default isolation of agents that run programs: auto, required, namespace, landlock or none.",
			setting.OneOf(&c.Isolation, isolations()...)),
		setting.New("retention", "How long entries are kept after their run has ended; 0s keeps them forever.",
			setting.Duration(&c.Retention, 0, 100*most)),
		setting.New("audit_retention", "How long the audit log keeps what operators did; 0s keeps it forever.",
			setting.Duration(&c.KeepAudit, 0, 100*most)),
		setting.New("stats_label",
			"Metadata key of runs, such as customer, by whose values the runs that ended are summed up too. Empty: none.",
			setting.Checked(&c.Label, `a key of up to 64 letters, digits, "_", "-" and ".", such as "customer"`, isLabel)),
		setting.New("budget_zone",
			"Time zone in which the days and months of budgets begin; the same on all servers of a store.",
			zone(&c.BudgetZone)),
		setting.New("search",
			"Index the messages, so that they are found by their words; the same on all servers of a store.",
			setting.Bool(&c.Search)),
	}
}

// settings returns the keys of an agent's table, which depend on its kind.
func (a *Agent) settings() []setting.Setting {
	const most = 365 * 24 * time.Hour
	all := []setting.Setting{
		setting.New("kind",
			"echo repeats its input; exec runs a command; acp runs an agent of the Agent Client Protocol; inbox stores "+
				"messages for readers that use tool calls; tour demonstrates runs; codex and claude run those programs; remote is "+
				"served by workers elsewhere only.",
			setting.OneOf(&a.Kind, kinds()...)),
	}
	all = append(all, setting.New("budget",
		`What its runs may use in a day or a month, such as { day = "5usd", month = "100usd, 50m tokens" }. Then no run `+
			`starts until a person raises the budget or the next day or month begins. run = "1usd" is the budget of each run `+
			`whose message says none.`, budgets(&a.Budget)))
	if a.Kind == KindRemote { // the workers of a remote agent know its other settings
		return append(append(all, a.agentStarts()...), agentRetrySettings(&a.Retry)...)
	}
	all = append(all,
		setting.New("limit",
			"Maximum number of concurrent runs of this agent in this process. Its default is runs. For codex and claude with "+
				"the permissions edit or all it is 1, because they change files in one folder, and 4 in worktrees.",
			setting.Int(&a.Limit, 1, 100_000)),
		setting.New("deadline", "Maximum time of one attempt.", setting.Duration(&a.Deadline, 10*time.Millisecond, most)),
	)
	all = append(append(all, a.agentStarts()...), agentRetrySettings(&a.Retry)...)
	profile := a.Profile()
	switch {
	case a.Kind == program.KindACP:
		all = append(all,
			setting.New("command", "Program and its arguments; no shell is used.", setting.List(&a.Command)),
			setting.New("mode", "Mode of the agent that each session gets; empty is one in which it asks for permission.",
				setting.Text(&a.Mode)))
	case profile != nil:
		all = append(all,
			setting.New("program", "Path of the program, or its name in PATH.", setting.Text(&a.Program)),
			setting.New("args", "Further arguments for the program.", setting.List(&a.Args)))
	}
	if profile != nil {
		all = append(all,
			setting.New("model", "Model to use; empty is the program's default.", setting.Text(&a.Model)),
			setting.New("permissions",
				"Permissions: ask (read; a person approves everything else), read, edit (also change files in its folder), all.",
				setting.OneOf(&a.Permissions, modes(profile)...)),
		)
	}
	switch {
	case a.Kind == KindEcho || a.Kind == KindTour:
		all = append(all,
			setting.New("pace", "Pause between two words; 0s writes them at once.", setting.Duration(&a.Pace, 0, time.Hour)))
	case a.Kind == KindExec || profile != nil:
		if profile == nil {
			all = append(all, setting.New("command", "Program and its arguments; no shell is used.", setting.List(&a.Command)))
		}
		all = append(all,
			setting.New("dir", "Working folder; empty is the server's own.", setting.Text(&a.Dir)),
			setting.New("env", "Environment variables to set.", pairs(&a.Env)),
			setting.New("env_allow", "Environment variables of the server to pass on.", setting.List(&a.EnvAllow)),
			setting.New("start_timeout", "Maximum time to the first output; 0s is unlimited.",
				setting.Duration(&a.StartTimeout, 0, most)),
			setting.New("idle_timeout",
				"Maximum time between two outputs; 0s is unlimited. For codex and claude, call_timeout replaces it while a tool "+
					"works.", setting.Duration(&a.IdleTimeout, 0, most)),
			setting.New("total_timeout", "Maximum total time; 0s means only deadline applies.",
				setting.Duration(&a.TotalTimeout, 0, most)),
			setting.New("retry_pause", "Older name of retry_first.", setting.Duration(&a.Retry.First, 0, retry.MaxDelay)),
		)
		all = append(all, a.outcomeSettings(profile)...)
		all = append(all, a.Confinement.settings()...)
	}
	return all
}

// outcomeSettings returns the keys that select which options a program gets and how its exit is read. They are not
// part of the definition: runs that are pinned to an older version use the current values.
func (a *Agent) outcomeSettings(profile *program.Profile) []setting.Setting {
	if profile != nil {
		const most = 365 * 24 * time.Hour
		return []setting.Setting{
			setting.New("call_timeout",
				"Maximum time between two outputs while a tool call is open or the program's processes work; 0s is unlimited.",
				setting.Duration(&a.CallTimeout, 0, most)),
			setting.New("options", "Options of a submit that replace settings: model; empty refuses a submit with options.",
				setting.Each(&a.Options, "the name of an option; use model", func(s string) bool { return s == exec.OptionModel })),
		}
	}
	return []setting.Setting{
		setting.New("options",
			`Options of a submit that the command gets in MAILROOM_OPTIONS; "*" is all, empty refuses a submit with options.`,
			setting.List(&a.Options)),
		setting.New("permanent_exits", "Exit statuses of a failure that a retry does not mend: the run fails at once.",
			exits(&a.PermanentExits)),
		setting.New("unavailable_exits",
			"Exit statuses of an outage: the run is retried for up to a day, and no failure is counted.",
			exits(&a.UnavailableExits)),
	}
}

func modes(p *program.Profile) (names []string) {
	for _, m := range p.Modes {
		names = append(names, string(m))
	}
	return names
}

// check returns the problems that no setting has alone, because they involve more than one setting.
func (c *Config) check() []problem {
	var found []problem
	if c.Renew > c.Lease/2 { // a worker gives its lease up before its end, and a renewal may come late
		found = append(found, problem{key: "renew", what: fmt.Sprintf(
			"%s is too long for a lease of %s; use at most half of it, %s",
			setting.FormatDuration(c.Renew), setting.FormatDuration(c.Lease), setting.FormatDuration(c.Lease/2))})
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		there, missing := "tls_cert", "tls_key"
		if c.TLSCert == "" {
			there, missing = missing, there
		}
		found = append(found, problem{key: there, what: "set " + missing + " too"})
	}
	if c.Agents[c.DefaultAgent] == nil && !mayBeFound(c.DefaultAgent) {
		what := fmt.Sprintf("unknown agent %q", c.DefaultAgent)
		if near := display.Suggest(c.DefaultAgent, sorted(c.Agents)); near != "" {
			what += fmt.Sprintf(" (did you mean %q?)", near)
		}
		found = append(found, problem{key: "default_agent", what: what})
	}
	found = append(found, c.checkStore()...)
	found = append(found, c.checkReconnect()...)
	found = append(found, c.checkChats()...)
	found = append(found, c.checkRules()...)
	found = append(found, c.checkSchedules()...)
	found = append(found, c.checkBudgets()...)
	for _, name := range sorted(c.Agents) {
		a := c.Agents[name]
		if (a.Kind == KindExec || a.Kind == program.KindACP) && (len(a.Command) == 0 || a.Command[0] == "") {
			what := `missing command; set one such as command = ["cat"]`
			if a.Kind == program.KindACP {
				what = `missing command; set one such as command = ["codex-acp"]`
			}
			found = append(found, problem{key: "agents." + name, what: what})
		}
		if a.KeyFrom != "" && !a.Keys.Limit().Any() {
			key := "agents." + name + ".key_from"
			found = append(found, problem{key: key, what: "bounds nothing without key_limit or key_rate; set one"})
		}
		if a.Keys.isUnused() {
			key := "agents." + name + ".key_burst"
			found = append(found, problem{key: key, what: "bounds nothing without key_rate; set both"})
		}
		found = append(found, a.Confinement.check("agents."+name, a.Dir)...)
		if program.Find(a.Kind) != nil && a.Program == "" {
			found = append(found, problem{key: "agents." + name + ".program", what: "empty; use a path, or a name in PATH"})
		}
	}
	return found
}

// mayBeFound reports whether a program that is found at the start can be an agent of this name.
func mayBeFound(agent string) bool {
	return program.Find(agent) != nil || program.ACPCommands()[agent] != nil
}

// File returns the path of the file from which the settings were read, or "" if there was no file.
func (c *Config) File() string { return c.file }

// SetListen overrides the address, as a flag does.
func (c *Config) SetListen(addr string) error {
	if err := address(&c.Listen).Set(addr); err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	c.set["listen"] = true
	delete(c.variables, "listen")
	return nil
}

// isLabel reports whether text can be the setting stats_label.
func isLabel(text string) bool {
	return len(text) <= 64 && !strings.ContainsFunc(text, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("_-.", c)
	})
}
