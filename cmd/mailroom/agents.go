package main

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"mailroom"
	"mailroom/agent/echo"
	"mailroom/agent/exec"
	"mailroom/agent/inbox"
	"mailroom/agent/tour"
	"mailroom/cmd/mailroom/internal/config"
	"mailroom/engine"
)

// roster are the agents of a configuration, with their present definitions and
// the older versions of them that could be rebuilt.
type roster struct {
	agents  map[string]engine.Agent
	kinds   map[string]string
	present []mailroom.Definition // by agent
	old     []mailroom.Definition // kept, but not present
}

// newRoster builds the agents of c, and of the definitions that were kept the
// versions that runs may still be pinned to. One that cannot be rebuilt is left
// out: its runs fail for good, naming it.
func newRoster(c *config.Config, kept []mailroom.Definition, log *slog.Logger) (*roster, error) {
	r := &roster{agents: map[string]engine.Agent{}, kinds: map[string]string{}}
	for _, name := range slices.Sorted(maps.Keys(c.Agents)) {
		a := c.Agents[name]
		body, err := a.Definition()
		if err != nil {
			return nil, err
		}
		version, err := a.Version()
		if err != nil {
			return nil, err
		}
		built, err := buildAgent(a)
		if err != nil {
			return nil, fmt.Errorf("agent %s: %w", name, err)
		}
		r.agents[name] = engine.Agent{
			Agent: built, Version: version, Limit: a.Limit, Deadline: a.Deadline, Kept: map[string]mailroom.Agent{},
		}
		r.kinds[name] = a.Kind
		r.present = append(r.present, mailroom.Definition{Agent: name, Version: version, Body: body})
	}
	for _, d := range kept {
		a, configured := r.agents[d.Agent]
		if configured && a.Version == d.Version {
			continue
		}
		r.old = append(r.old, d)
		if !configured {
			continue // due runs of it fail as of an agent that nobody has
		}
		built, err := rebuildAgent(d, c.Agents[d.Agent])
		if err != nil {
			log.Warn("an older version of an agent cannot be kept; runs that are pinned to it will fail", "agent", d.Agent, "version", d.Version, "error", err)
			continue
		}
		a.Kept[d.Version] = built
	}
	return r, nil
}

func rebuildAgent(d mailroom.Definition, present *config.Agent) (mailroom.Agent, error) {
	a, err := config.Rebuild(d.Body, present)
	if err != nil {
		return nil, err
	}
	return buildAgent(a)
}

func buildAgent(a *config.Agent) (mailroom.Agent, error) {
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
			StartTimeout: a.StartTimeout, IdleTimeout: a.IdleTimeout, TotalTimeout: a.TotalTimeout,
		})
	}
	return nil, fmt.Errorf("nothing can run the kind %q", a.Kind)
}

func variables(env map[string]string) []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}
