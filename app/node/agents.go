package node

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"mailroom"
	"mailroom/agent/builtin"
	"mailroom/agent/exec"
	"mailroom/agent/exec/program"
	"mailroom/agent/inbox"
	"mailroom/api"
	"mailroom/app/config"
	"mailroom/engine"
	"mailroom/internal/price"
	"mailroom/internal/reserved"
	"mailroom/internal/retry"
	"mailroom/internal/setting"
	"mailroom/server"
	"mailroom/store"
	"mailroom/store/postgres"
)

// agentSet holds the configured agents with their current definitions, and the older versions to which open runs may
// still be pinned.
type agentSet struct {
	agents     map[string]engine.Agent
	kinds      map[string]string
	retries    map[string]retry.Policy // retries of the configured agents, by name
	exits      map[string]exitClasses  // exit codes of the agents that run a command, by name
	remote     []string                // agents that only workers elsewhere serve
	prices     *price.List
	configured map[string]*config.Agent // with the programs that were found
	options    map[string][]string      // by agent: the submit options that it accepts; an agent not in it accepts all
	programs   *programs
	sandbox    *sandbox
	versions   *versions
	present    []store.Definition // current, sorted by agent
	old        []store.Definition // kept in the store, no longer current
}

// newAgentSet builds the agents of c and the older versions in kept. A version that cannot be rebuilt is left out:
// the runs pinned to it fail permanently and name it. shared also gives programs the files of messages that other
// servers received; nil if no other server shares the store.
func newAgentSet(
	c *config.Config, kept []store.Definition, shared *postgres.Files, log *slog.Logger,
) (*agentSet, error) {
	r := &agentSet{
		agents: map[string]engine.Agent{}, kinds: map[string]string{}, retries: map[string]retry.Policy{},
		exits: map[string]exitClasses{}, options: map[string][]string{}, programs: newPrograms(log),
		sandbox: newSandbox(c, log), prices: c.Prices(),
	}
	r.sandbox.shareFiles(shared)
	configured := maps.Clone(c.Agents)
	r.versions = &versions{
		built:   map[agentVersion]mailroom.Agent{},
		rebuild: func(d store.Definition) (mailroom.Agent, error) { return r.rebuild(d, configured[d.Agent], c.Mark) },
	}
	for _, p := range program.All() {
		if configured[p.Name] != nil {
			continue // an agent of this name is configured, whatever its kind
		}
		offered := c.ProgramAgent(p)
		if r.programs.addIfFound(p.Name, programOptions(p, offered, c.Mark, launchOptions{})) {
			configured[p.Name] = offered
		}
	}
	for name, command := range program.ACPCommands() {
		offered := c.ACPAgent(command)
		if p := offered.Profile(); configured[name] == nil &&
			exec.Usable(programOptions(p, offered, c.Mark, launchOptions{})) == nil {
			configured[name] = offered
		}
	}
	r.configured = configured
	for _, name := range slices.Sorted(maps.Keys(configured)) {
		a := configured[name]
		r.kinds[name], r.retries[name] = a.Kind, a.Retry
		if a.Kind == config.KindRemote {
			r.remote = append(r.remote, name)
			continue
		}
		body, err := a.Definition()
		if err != nil {
			return nil, err
		}
		version, err := a.Version()
		if err != nil {
			return nil, err
		}
		if err := r.build(name, a, c.Mark, version); err != nil && c.Agents[name] == nil {
			log.Warn("installed program is not offered as an agent", "agent", name, "reason", err)
			continue
		} else if err != nil {
			return nil, fmt.Errorf("agent %s: %w", name, err)
		}
		r.present = append(r.present, store.Definition{Agent: name, Version: version, Body: body})
	}
	r.sandbox.warnUnisolated()
	for _, names := range sharedFolders(c.Agents) {
		log.Warn("agents change files in one folder, and their limits do not keep them apart; give each a folder of its own",
			"agents", names)
	}
	for _, d := range kept {
		a, present := r.agents[d.Agent]
		if present && a.Version == d.Version {
			continue
		}
		r.old = append(r.old, d)
		if !present {
			continue // due runs of this agent fail with an unknown agent
		}
		if err := r.versions.add(d); err != nil {
			log.Warn("agent version cannot be rebuilt; runs pinned to it fail for good",
				"agent", d.Agent, "version", d.Version,
				"error", err)
		}
	}
	return r, nil
}

// sharedFolders returns the agents that may change files in the same folder, as one text with their names per folder.
func sharedFolders(agents map[string]*config.Agent) (shared []string) {
	in := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(agents)) {
		if a := agents[name]; a.Edits() && a.Workspace != config.WorkspaceWorktree {
			dir := resolvePath(a.Dir)
			in[dir] = append(in[dir], name)
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(in)) {
		if len(in[dir]) > 1 {
			shared = append(shared, strings.Join(in[dir], ", "))
		}
	}
	return shared
}

// knowsVersion reports whether an agent has this version, or had it when the server started. It returns true for all
// versions of agents that only other servers or workers run, because this server does not know their versions.
func (r *agentSet) knowsVersion(agent, version string) bool {
	a, ok := r.agents[agent]
	return !ok || a.Version == version ||
		slices.ContainsFunc(r.old, func(d store.Definition) bool { return d.Agent == agent && d.Version == version })
}

// build adds a configured agent.
func (r *agentSet) build(name string, a *config.Agent, mark, version string) error {
	var around launchOptions
	if a.IsProgram() {
		var err error
		if around, err = r.sandbox.confine(name, a); err != nil {
			return err
		}
		around.alone = r.programs.aloneOf(a)
	}
	built, err := buildAgent(a, mark, around)
	if err != nil {
		return err
	}
	if p := a.Profile(); p != nil {
		r.programs.add(name, programOptions(p, a, mark, around))
	}
	if a.Kind == config.KindExec {
		r.exits[name] = exitClasses{a.PermanentExits, a.UnavailableExits}
		r.programs.addCommand(name, a)
	}
	r.agents[name] = engine.Agent{
		Agent: built, Version: version, Limit: a.Limit, Deadline: a.Deadline, Sticky: a.Profile() != nil,
		OldVersion: func(ctx context.Context, version string) (mailroom.Agent, error) {
			return r.versions.find(ctx, agentVersion{name, version})
		},
	}
	if a.Kind != config.KindInbox { // readers of an inbox see the run with its options
		r.options[name] = optionsOf(a)
	}
	return nil
}

// optionsOf returns the options of a submit that an agent takes.
func optionsOf(a *config.Agent) []string {
	options := append([]string{}, a.Options...)
	if len(a.Repos) > 0 {
		options = append(options, exec.OptionRepo)
	}
	return options
}

// describe returns what this process knows about an agent. others is the retry policy of agents that are not
// configured here.
func (r *agentSet) describe(name string, others retry.Policy) server.AgentInfo {
	return r.programs.describe(name, server.AgentInfo{
		Kind: r.kinds[name], Version: r.agents[name].Version, Isolation: r.sandbox.isolationOf(name),
		Retry: r.describeRetry(name, others),
	})
}

// exitClasses are the exit statuses of a command that classify its failures.
type exitClasses struct{ permanent, unavailable []int }

// describeRetry returns the policy of retryOf in the form that the API shows.
func (r *agentSet) describeRetry(agent string, others retry.Policy) *api.AgentRetry {
	p, exits := r.retryOf(agent, others).Over(retry.Default()), r.exits[agent]
	return &api.AgentRetry{
		Attempts: p.Attempts, Factor: p.Factor,
		First: setting.FormatDuration(p.First), Most: setting.FormatDuration(p.Most),
		OutageMost: setting.FormatDuration(p.OutageMost), Outage: setting.FormatDuration(p.Outage),
		MaxCrashes:     mailroom.MaxCrashes,
		PermanentExits: append([]int{}, exits.permanent...), UnavailableExits: append([]int{}, exits.unavailable...),
	}
}

// retryOf returns the policy by which failures of an agent are retried. others is the policy of agents that are not
// configured here. The internal agents that send replies and alerts always have the same policy. The settings of
// [retry] do not apply to them, because a configuration with one attempt would otherwise lose replies in a short
// outage of a chat.
func (r *agentSet) retryOf(agent string, others retry.Policy) retry.Policy {
	if p, ok := r.retries[agent]; ok {
		return p
	}
	if reserved.IsAgent(agent) {
		return retry.Delivery()
	}
	return others
}

// missing returns the agents that are configured or known but that this process does not run.
func (r *agentSet) missing() []string { return append(r.programs.missing(), r.remote...) }

// checkOptions returns why an agent does not take the options of a submit. The agents of remote workers check
// them when they run.
func (r *agentSet) checkOptions(agent string, options json.RawMessage) error {
	if err := exec.CheckOptions("agent "+agent, r.options[agent], options); err != nil {
		return err
	}
	a := r.configured[agent]
	if a == nil || len(a.Repos) == 0 {
		return nil
	}
	repo, err := exec.RepoOption(options)
	if err == nil && repo != "" {
		err = exec.CheckRepo(a.Repos, repo)
	}
	return err
}

// checkBudget returns why the budget of a submit cannot bound an agent of this server.
func (r *agentSet) checkBudget(agent string, options json.RawMessage, b mailroom.Budget) error {
	a := r.configured[agent]
	if a == nil {
		return nil
	}
	model, err := exec.ModelOption(options)
	if err != nil {
		model = "" // the options are refused for it
	}
	return a.CheckBudget(agent, model, b.Amounts, r.prices)
}

// rebuild builds an agent from a definition in the store.
func (r *agentSet) rebuild(d store.Definition, present *config.Agent, mark string) (mailroom.Agent, error) {
	a, err := config.Rebuild(d.Body, present)
	if err != nil {
		return nil, err
	}
	var around launchOptions
	if a.IsProgram() {
		if around, err = r.sandbox.confine("", a); err != nil {
			return nil, err
		}
		around.alone = r.programs.aloneOf(a)
	}
	return buildAgent(a, mark, around)
}

func buildAgent(a *config.Agent, mark string, around launchOptions) (mailroom.Agent, error) {
	if p := a.Profile(); p != nil {
		return exec.NewProgram(programOptions(p, a, mark, around))
	}
	switch a.Kind {
	case config.KindEcho:
		return builtin.NewEcho(a.Pace), nil
	case config.KindInbox:
		return inbox.New(), nil
	case config.KindTour:
		return builtin.NewTour(a.Pace), nil
	case config.KindExec:
		return exec.New(exec.Options{
			Command: a.Command, Dir: around.dir, Worktrees: around.worktrees, Env: append(around.env, variables(a.Env)...),
			EnvAllow:     around.allowed(a.EnvAllow),
			StartTimeout: a.StartTimeout, IdleTimeout: a.IdleTimeout, TotalTimeout: a.TotalTimeout, Mark: mark,
			Isolation: around.isolation, Files: around.files, Source: around.source,
			PermanentExits: a.PermanentExits, UnavailableExits: a.UnavailableExits, TakesOptions: optionsOf(a),
		})
	}
	return nil, fmt.Errorf("unknown kind %q", a.Kind)
}

// programOptions returns the options of a CLI agent. A timeout of 0 means no limit.
func programOptions(p *program.Profile, a *config.Agent, mark string, around launchOptions) exec.ProgramOptions {
	noneIfZero := func(d time.Duration) time.Duration {
		if d == 0 {
			return -1
		}
		return d
	}
	return exec.ProgramOptions{
		Profile: p, Program: a.Program, Model: a.Model, Args: a.Args, Permissions: program.Mode(a.Permissions),
		Dir: around.dir, Worktrees: around.worktrees, Alone: around.alone, Env: append(around.env, variables(a.Env)...),
		EnvAllow: around.allowed(a.EnvAllow), Mark: mark,
		Isolation: around.isolation, Files: around.files, Source: around.source, TakesOptions: optionsOf(a),
		StartTimeout: noneIfZero(a.StartTimeout), IdleTimeout: noneIfZero(a.IdleTimeout),
		TotalTimeout: noneIfZero(a.TotalTimeout),
		CallTimeout:  noneIfZero(a.CallTimeout),
	}
}

func variables(env map[string]string) []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}
