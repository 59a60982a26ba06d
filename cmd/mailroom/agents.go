package main

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"mailroom"
	"mailroom/agent/echo"
	"mailroom/agent/exec"
	"mailroom/agent/exec/program"
	"mailroom/agent/inbox"
	"mailroom/agent/tour"
	"mailroom/cmd/mailroom/internal/config"
	"mailroom/engine"
)

// roster are the agents of a configuration, with their present definitions and
// the older versions of them that could be rebuilt.
type roster struct {
	agents   map[string]engine.Agent
	kinds    map[string]string
	programs *programs
	present  []mailroom.Definition // by agent
	old      []mailroom.Definition // kept, but not present
}

// newRoster builds the agents of c, and of the definitions that were kept the
// versions that runs may still be pinned to. One that cannot be rebuilt is left
// out: its runs fail for good, naming it.
func newRoster(c *config.Config, kept []mailroom.Definition, log *slog.Logger) (*roster, error) {
	mark := c.Mark
	r := &roster{agents: map[string]engine.Agent{}, kinds: map[string]string{}, programs: newPrograms(log)}
	configured := maps.Clone(c.Agents)
	for _, p := range program.All() {
		if configured[p.Name] != nil {
			continue // whatever it is there
		}
		if offered := c.Offered(p); r.programs.offer(p.Name, programOptions(p, offered, mark)) {
			configured[p.Name] = offered
		}
	}
	for _, name := range slices.Sorted(maps.Keys(configured)) {
		a := configured[name]
		body, err := a.Definition()
		if err != nil {
			return nil, err
		}
		version, err := a.Version()
		if err != nil {
			return nil, err
		}
		built, err := buildAgent(a, mark)
		if err != nil {
			return nil, fmt.Errorf("agent %s: %w", name, err)
		}
		if p := program.Find(a.Kind); p != nil {
			r.programs.add(name, programOptions(p, a, mark))
		}
		r.agents[name] = engine.Agent{
			Agent: built, Version: version, Limit: a.Limit, Deadline: a.Deadline, Kept: map[string]mailroom.Agent{},
		}
		r.kinds[name] = a.Kind
		r.present = append(r.present, mailroom.Definition{Agent: name, Version: version, Body: body})
	}
	for _, d := range kept {
		a, present := r.agents[d.Agent]
		if present && a.Version == d.Version {
			continue
		}
		r.old = append(r.old, d)
		if !present {
			continue // due runs of it fail as of an agent that nobody has
		}
		built, err := rebuildAgent(d, configured[d.Agent], mark)
		if err != nil {
			log.Warn("an older version of an agent cannot be kept; runs that are pinned to it will fail", "agent", d.Agent, "version", d.Version, "error", err)
			continue
		}
		a.Kept[d.Version] = built
	}
	return r, nil
}

func rebuildAgent(d mailroom.Definition, present *config.Agent, mark string) (mailroom.Agent, error) {
	a, err := config.Rebuild(d.Body, present)
	if err != nil {
		return nil, err
	}
	return buildAgent(a, mark)
}

func buildAgent(a *config.Agent, mark string) (mailroom.Agent, error) {
	if p := program.Find(a.Kind); p != nil {
		return exec.NewProgram(programOptions(p, a, mark))
	}
	switch a.Kind {
	case config.KindEcho:
		return echo.New(echo.Options{Pace: a.Pace}), nil
	case config.KindInbox:
		return inbox.New(), nil
	case config.KindTour:
		return tour.New(tour.Options{Pace: a.Pace}), nil
	case config.KindExec:
		return exec.New(exec.Options{
			Command: a.Command, Dir: a.Dir, Env: variables(a.Env), EnvAllow: a.EnvAllow,
			StartTimeout: a.StartTimeout, IdleTimeout: a.IdleTimeout, TotalTimeout: a.TotalTimeout, Mark: mark,
		})
	}
	return nil, fmt.Errorf("nothing can run the kind %q", a.Kind)
}

// programOptions are the settings of a program. A time of 0s is no limit.
func programOptions(p *program.Profile, a *config.Agent, mark string) exec.ProgramOptions {
	noneIfZero := func(d time.Duration) time.Duration {
		if d == 0 {
			return -1
		}
		return d
	}
	return exec.ProgramOptions{
		Profile: p, Program: a.Program, Model: a.Model, Args: a.Args, Permissions: program.Mode(a.Permissions),
		Dir: a.Dir, Env: variables(a.Env), EnvAllow: a.EnvAllow, Mark: mark,
		StartTimeout: noneIfZero(a.StartTimeout), IdleTimeout: noneIfZero(a.IdleTimeout), TotalTimeout: noneIfZero(a.TotalTimeout),
	}
}

func variables(env map[string]string) []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}
