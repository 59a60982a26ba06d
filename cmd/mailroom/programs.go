package main

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"mailroom/agent/exec"
	"mailroom/internal/recovery"
	"mailroom/server"
)

// programs are the agents that are command-line agents, those that were not
// found among them, and what is known of each.
type programs struct {
	// Set before anything is asked.
	log      *slog.Logger
	present  map[string]exec.ProgramOptions // by agent
	notFound map[string]exec.ProgramOptions

	mu            sync.Mutex // guards what follows
	versions      map[string]string
	versionErrors map[string]string // why there is no version
}

func newPrograms(log *slog.Logger) *programs {
	return &programs{
		log: log, present: map[string]exec.ProgramOptions{}, notFound: map[string]exec.ProgramOptions{},
		versions: map[string]string{}, versionErrors: map[string]string{},
	}
}

// addIfFound reports whether a program that nobody has configured was found.
func (p *programs) addIfFound(name string, o exec.ProgramOptions) bool {
	if exec.Usable(o) != nil {
		p.notFound[name] = o
		return false
	}
	return true
}

func (p *programs) add(name string, o exec.ProgramOptions) { p.present[name] = o }

// missing names the agents that could be offered.
func (p *programs) missing() []string { return slices.Sorted(maps.Keys(p.notFound)) }

// describe says of an agent how its program is, as it is now.
func (p *programs) describe(name string, d server.AgentInfo) server.AgentInfo {
	o, ok := p.present[name]
	if !ok {
		if o, ok = p.notFound[name]; !ok {
			return d
		}
		d.Kind, d.Problem, d.Disabled = o.Profile.Name, "it was found after the server had started; start that anew", true
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

// queryVersions asks each program once for its version, until ctx ends.
func (p *programs) queryVersions(ctx context.Context) {
	var all sync.WaitGroup
	for name, o := range p.present {
		if exec.Usable(o) != nil {
			continue // which is what is shown
		}
		all.Go(func() {
			defer recovery.Log(p.log, "a program's version")
			version, err := exec.Version(ctx, o)
			if ctx.Err() != nil {
				return
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			p.versions[name] = version
			if err != nil {
				p.versionErrors[name] = err.Error()
				p.log.Warn("a program does not answer", "agent", name, "error", err)
			}
		})
	}
	all.Wait()
}
