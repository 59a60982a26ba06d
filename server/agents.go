package server

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"mailroom"
	"mailroom/alert"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/internal/reserved"
	"mailroom/server/internal/request"
	"mailroom/server/operate"
	"mailroom/store"
)

// Pauses is the part of a ledger that pauses agents.
type Pauses interface {
	PauseAgent(ctx context.Context, p store.Pause) (store.Pause, error)
	ResumeAgent(ctx context.Context, agent string) error
}

// agentHandlers serve agents and workers, and know which agents a submit may name.
type agentHandlers struct {
	alerts *operate.Alerts // nil: the server sends no alerts
	ledger Pauses
	agents Agents                                      // see Options.Agents
	remote func(ctx context.Context) ([]string, error) // the agents of remote workers
	find   request.Lookup
	log    *slog.Logger
}

// liveWorkers returns the workers whose lease has not expired.
func liveWorkers(rd store.Reader) ([]*store.Worker, error) {
	rows, err := rd.Workers()
	now := rd.Now()
	return slices.DeleteFunc(rows, func(w *store.Worker) bool { return w.Dead || w.LeaseUntil.Before(now) }), err
}

func (h *agentHandlers) listAgents(ctx context.Context, _ *empty) (*body[api.Page[api.Agent]], error) {
	agents := map[string]*api.Agent{}
	if h.agents.Names != nil {
		for _, name := range h.agents.Names() {
			agents[name] = h.agentOf(name)
		}
	}
	err := h.find.View(ctx, func(rd store.Reader) error {
		workers, err := liveWorkers(rd)
		if err != nil {
			return err
		}
		for _, w := range workers {
			for _, name := range w.Agents {
				if agents[name] == nil {
					agents[name] = &api.Agent{Name: name, Retry: h.agents.Describe(name).Retry}
				}
				agents[name].Workers++
			}
		}
		for _, name := range h.agents.Missing() {
			if agents[name] == nil { // no remote worker serves the agent
				agents[name] = h.agentOf(name)
			} else if d := h.agents.Describe(name); d.Problem == "" {
				agents[name].Kind = request.Given(d.Kind) // configured as an agent of such workers
			}
		}
		if err := countRunning(rd, requestOf(ctx).who, workers, agents); err != nil {
			return err
		}
		return addStored(rd, requestOf(ctx).who, agents)
	})
	if err != nil {
		return nil, err
	}
	// The agents that send alerts are left out: GET /v1/alerts shows each as a target with its pause, even while no
	// server runs it. So are the agents of schedules, budgets and pull requests, to which no messages are sent.
	maps.DeleteFunc(agents, func(name string, _ *api.Agent) bool {
		return alert.IsAgent(name) || reserved.IsKeeper(name)
	})
	out := api.Page[api.Agent]{Items: []api.Agent{}}
	for _, name := range slices.Sorted(maps.Keys(agents)) {
		a := agents[name]
		if a.Reason == nil && a.Workers == 0 {
			a.Reason = request.Given("no live worker serves it")
		}
		a.Available = a.Reason == nil
		out.Items = append(out.Items, *a)
	}
	return &body[api.Page[api.Agent]]{out}, nil
}

// names returns the agents that listAgents lists, and those that send alerts, sorted.
func (h *agentHandlers) names(rd store.Reader) ([]string, error) {
	names := slices.Clone(h.agents.Missing())
	if h.agents.Names != nil {
		names = append(names, h.agents.Names()...)
	}
	workers, err := liveWorkers(rd)
	if err != nil {
		return nil, err
	}
	for _, w := range workers {
		names = append(names, w.Agents...)
	}
	rows, err := rd.Agents()
	for _, p := range rows.Pauses {
		agent, _ := p.Of()
		names = append(names, agent)
	}
	slices.Sort(names)
	return slices.Compact(names), err
}

// countRunning adds the running runs of each agent, in threads visible to who. It reads only
// threads that workers hold, so the cost does not grow with history.
func countRunning(rd store.Reader, who *auth.Token, workers []*store.Worker, agents map[string]*api.Agent) error {
	for _, w := range workers {
		held, err := rd.Threads(store.ThreadQuery{Worker: w.ID})
		if err != nil {
			return err
		}
		var ids []string
		for _, t := range held {
			if who.CanSee(t) {
				ids = append(ids, t.Current)
			}
		}
		if len(ids) == 0 {
			continue
		}
		runs, err := rd.Runs(store.RunQuery{IDs: ids})
		if err != nil {
			return err
		}
		for _, r := range runs {
			if a := agents[r.Agent]; a != nil && r.Status == mailroom.StatusRunning {
				a.Running++
			}
		}
	}
	return nil
}

// addStored adds pauses, and the numbers of queued and waiting runs of the threads of who. A paused agent is
// listed even if nothing serves it.
func addStored(rd store.Reader, who *auth.Token, agents map[string]*api.Agent) error {
	rows, err := rd.Agents()
	if err != nil {
		return err
	}
	for _, p := range rows.Pauses {
		agent, worker := p.Of()
		if agents[agent] == nil {
			if worker != "" {
				continue // nothing serves it, and the row of its last worker will be dropped
			}
			agents[agent] = &api.Agent{Name: agent}
		}
		if worker == "" {
			agents[agent].Paused = describePause(p)
		} else if err := addPausedOn(rd, who, agents[agent], worker, describePause(p)); err != nil {
			return err
		}
	}
	q := store.CountQuery{ByAgent: true}
	if !who.SeesAll() {
		q.Owner = &who.Name
	}
	counts, err := rd.Count(q)
	for name, of := range counts.Agents {
		if a := agents[name]; a != nil {
			a.Queued, a.Waiting = of[mailroom.StatusQueued], of[mailroom.StatusWaiting]
		}
	}
	return err
}

// addPausedOn adds a pause on a live worker that who sees to an agent.
func addPausedOn(rd store.Reader, who *auth.Token, a *api.Agent, worker string, p *api.Pause) error {
	rows, err := rd.Workers(worker)
	for _, w := range rows {
		if w.Live(rd.Now()) && (who.SeesAll() || w.Owner == who.Name) {
			a.PausedOn = append(a.PausedOn, api.PausedOn{Worker: worker, Host: w.Host, At: p.At, Reason: p.Reason,
				Probe: p.Probe})
		}
	}
	return err
}

func describePause(p store.Pause) *api.Pause {
	out := &api.Pause{By: p.Pauser(), At: p.At, Reason: p.Reason}
	if !p.Probe.IsZero() {
		out.Probe = &p.Probe
	}
	return out
}

type pauseAgentInput struct {
	AgentPath
	Body *api.PauseAgent
}

// AgentPath is the name of an agent in a path.
type AgentPath struct {
	Agent string `path:"agent" doc:"Name of an agent."`
}

// pauseAgent pauses an agent that this server or a worker serves.
func (h *agentHandlers) pauseAgent(ctx context.Context, in *pauseAgentInput) (*body[api.Pause], error) {
	if err := h.checkKnown(ctx, in.Agent); err != nil {
		return nil, err
	}
	row := store.Pause{Agent: in.Agent, By: requestOf(ctx).who.Name}
	if in.Body != nil {
		row.Reason = in.Body.Reason
	}
	row, err := h.ledger.PauseAgent(ctx, row)
	if err != nil {
		return nil, request.Locate("body.", err)
	}
	h.log.InfoContext(ctx, "agent paused", "agent", row.Agent, "by", row.By)
	return &body[api.Pause]{*describePause(row)}, nil
}

type resumeAgentInput struct {
	AgentPath
	EmptyBody
}

func (h *agentHandlers) resumeAgent(ctx context.Context, in *resumeAgentInput) (*empty, error) {
	if err := h.ledger.ResumeAgent(ctx, in.Agent); err != nil {
		return nil, err
	}
	h.log.InfoContext(ctx, "agent resumed", "agent", in.Agent, "by", requestOf(ctx).who.Name)
	return nil, nil
}

// checkKnown refuses an agent, other than the agent of a target, that neither this server nor a
// worker serves.
func (h *agentHandlers) checkKnown(ctx context.Context, name string) error {
	err := h.checkAgent(ctx, name)
	switch {
	case err == nil:
		return nil
	case mailroom.CodeOf(err) != mailroom.CodeInvalid && mailroom.CodeOf(err) != mailroom.CodeUnserved:
		return err
	// Submits may not use such an agent now.
	case slices.Contains(h.agents.Missing(), name), slices.Contains(h.agents.Names(), name), h.alerts.Sends(name):
		return nil
	}
	return mailroom.Errorf(mailroom.CodeNotFound,
		"unknown agent %q; use one of %s", request.Truncate(name), strings.Join(h.agents.Names(), ", "))
}

// agentOf returns what this process knows of an agent.
func (h *agentHandlers) agentOf(name string) *api.Agent {
	d := h.agents.Describe(name)
	return &api.Agent{
		Name: name, Kind: request.Given(d.Kind), Version: request.Given(d.Version), Program: request.Given(d.Program),
		Reason: request.Given(d.Problem), Retry: d.Retry,
		Isolation: request.Given(d.Isolation),
	}
}

func (h *agentHandlers) listWorkers(ctx context.Context, _ *empty) (*body[api.Page[api.Worker]], error) {
	out := api.Page[api.Worker]{Items: []api.Worker{}}
	err := h.find.View(ctx, func(rd store.Reader) error {
		rows, err := liveWorkers(rd)
		if err != nil {
			return err
		}
		for _, w := range rows {
			if who := requestOf(ctx).who; !who.SeesAll() && w.Owner != who.Name {
				continue
			}
			held, err := rd.Threads(store.ThreadQuery{Worker: w.ID})
			if err != nil {
				return err
			}
			agents := slices.Sorted(slices.Values(w.Agents))
			out.Items = append(out.Items, api.Worker{
				ID: w.ID, Host: w.Host, PID: w.PID, Agents: append([]string{}, agents...),
				Running: len(held), LeaseUntil: w.LeaseUntil, Node: w.Node, Duties: append([]string{}, w.Duties...),
				Version: w.Version,
			})
		}
		return nil
	})
	slices.SortFunc(out.Items, func(a, b api.Worker) int { return cmp.Compare(a.ID, b.ID) })
	return &body[api.Page[api.Worker]]{out}, err
}

// checkAgent refuses an agent that is neither declared here nor served by a remote worker, now or
// recently, with the code unserved.
func (h *agentHandlers) checkAgent(ctx context.Context, name string) error {
	if h.agents.Names == nil {
		return nil
	}
	barred := func() error {
		if d := h.agents.Describe(name); d.Disabled {
			return request.Invalid("body.agent",
				fmt.Sprintf("agent %q cannot be used: %s", request.Truncate(name), d.Problem), name)
		}
		return nil
	}
	known := h.agents.Names()
	if slices.Contains(known, name) {
		return barred()
	}
	elsewhere, err := h.remote(ctx)
	if err != nil || slices.Contains(elsewhere, name) {
		return err
	}
	if slices.Contains(h.agents.Missing(), name) {
		return barred()
	}
	return request.Unserved("body.agent",
		fmt.Sprintf("unknown agent %q; use one of %s, or start the worker that serves it (messages to an agent that the "+
			"configuration declares with kind = %q wait for its worker)", request.Truncate(name), strings.Join(known, ", "),
			"remote"), name)
}
