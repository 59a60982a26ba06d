package node

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"mailroom/agent/exec"
	"mailroom/app/config"
	"mailroom/internal/recovery"
	"mailroom/server"
)

// programs holds the agents that run a program: the CLI agents whose program was found, those whose program was not
// found, and the agents of kind exec.
type programs struct {
	// Set before queryVersions is called.
	log      *slog.Logger
	commands map[string]*config.Agent       // agents of kind exec, by name
	present  map[string]exec.ProgramOptions // programs found on this machine, by agent
	notFound map[string]exec.ProgramOptions

	mu            sync.Mutex             // guards what follows
	alone         map[string]*exec.Alone // by the name of the profile
	versions      map[string]string
	versionErrors map[string]string // why the version is unknown
}

func newPrograms(log *slog.Logger) *programs {
	return &programs{
		log: log, commands: map[string]*config.Agent{}, present: map[string]exec.ProgramOptions{},
		notFound: map[string]exec.ProgramOptions{},
		alone:    map[string]*exec.Alone{}, versions: map[string]string{}, versionErrors: map[string]string{},
	}
}

// addIfFound reports whether the program of an agent that is not configured was found, and
// records a missing one.
func (p *programs) addIfFound(name string, o exec.ProgramOptions) bool {
	if exec.Usable(o) != nil {
		p.notFound[name] = o
		return false
	}
	return true
}

// aloneOf returns what the agents with the program of a share, or nil if its processes need not start one by one. They
// must if the query for the version starts the program itself, which then prepares its files as for a turn.
func (p *programs) aloneOf(a *config.Agent) *exec.Alone {
	profile := a.Profile()
	if profile == nil || profile.Hello == "" {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.alone[profile.Name] == nil {
		p.alone[profile.Name] = exec.NewAlone()
	}
	return p.alone[profile.Name]
}

func (p *programs) add(name string, o exec.ProgramOptions) { p.present[name] = o }

// addCommand adds an agent of kind exec, and warns if its command cannot be started now.
func (p *programs) addCommand(name string, a *config.Agent) {
	p.commands[name] = a
	if err := exec.UsableCommand(a.Command, a.Dir); err != nil {
		p.log.Warn("agent cannot be used; messages to it are refused until its command can be started", "agent", name,
			"problem", err)
	}
}

// missing returns the names of agents whose program was not found.
func (p *programs) missing() []string { return slices.Sorted(maps.Keys(p.notFound)) }

// describe adds the current state of an agent's program to d.
func (p *programs) describe(name string, d server.AgentInfo) server.AgentInfo {
	if a := p.commands[name]; a != nil {
		if err := exec.UsableCommand(a.Command, a.Dir); err != nil {
			d.Problem, d.Disabled = err.Error(), true
		}
		return d
	}
	o, ok := p.present[name]
	if !ok {
		if o, ok = p.notFound[name]; !ok {
			return d
		}
		d.Kind, d.Problem, d.Disabled = o.Profile.Name, "the program was installed after the server started; restart the "+
			"server", true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	d.Program = p.versions[name]
	if why := p.versionErrors[name]; why != "" {
		d.Problem = why
	}
	if err := exec.Usable(o); err != nil {
		d.Problem, d.Disabled = err.Error(), true
	}
	return d
}

// queryVersions runs each program once to get its version.
func (p *programs) queryVersions(ctx context.Context) {
	var all sync.WaitGroup
	for name, o := range p.present {
		if exec.Usable(o) != nil {
			continue // describe shows the reason
		}
		all.Go(func() {
			defer recovery.Log(p.log, "program version query")
			version, err := exec.Version(ctx, o)
			if ctx.Err() != nil {
				return
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			p.versions[name] = version
			if err != nil {
				p.versionErrors[name] = err.Error()
				p.log.Warn("agent program did not report its version; its agent works without it", "agent", name, "error", err)
			}
		})
	}
	all.Wait()
}
