package server

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/internal/metrics"
	"mailroom/server/internal/view"
	"mailroom/store"
)

// registerAgents registers the operations on agents, workers, statistics and metrics.
func (rt router) registerAgents() {
	s := rt.server
	handle(rt, rt.operation(auth.PermissionRead, "GET /v1/agents", "list-agents", "List agents, by name"), s.listAgents)
	handle(rt, rt.operation(auth.PermissionRead, "GET /v1/workers", "list-workers", "List the token's workers with a live lease, by id; an admin sees all"), s.listWorkers)
	handle(rt, rt.operation(auth.PermissionRead, "GET /v1/stats", "stats", "Count threads and runs"), s.stats)
	op := rt.operation(auth.PermissionMeasure, "GET /metrics", "metrics", "Get metrics in the Prometheus text format")
	text := &huma.Schema{Type: huma.TypeString}
	op.Responses["200"] = &huma.Response{Description: "OK", Content: map[string]*huma.MediaType{"text/plain": {Schema: text}}}
	rt.api.OpenAPI().AddOperation(&op)
	s.mux.HandleFunc("GET /metrics", s.metrics)
}

// liveWorkers returns the workers whose lease has not expired.
func liveWorkers(rd store.Reader) ([]*store.Worker, error) {
	rows, err := rd.Workers()
	now := rd.Now()
	return slices.DeleteFunc(rows, func(w *store.Worker) bool { return w.Dead || w.LeaseUntil.Before(now) }), err
}

func (s *Server) listAgents(ctx context.Context, _ *empty) (*body[api.Page[api.Agent]], error) {
	agents := map[string]*api.Agent{}
	if s.options.Agents != nil {
		for _, name := range s.options.Agents() {
			agents[name] = s.agentOf(name)
		}
	}
	err := s.options.Ledger.View(ctx, func(rd store.Reader) error {
		workers, err := liveWorkers(rd)
		if err != nil {
			return err
		}
		for _, w := range workers {
			for _, name := range w.Agents {
				if agents[name] == nil {
					agents[name] = &api.Agent{Name: name}
				}
				agents[name].Workers++
			}
		}
		for _, name := range s.options.MissingAgents() {
			if agents[name] == nil { // no remote worker serves it
				agents[name] = s.agentOf(name)
			}
		}
		return countRunning(rd, requestOf(ctx).who, workers, agents)
	})
	if err != nil {
		return nil, err
	}
	out := api.Page[api.Agent]{Items: []api.Agent{}}
	for _, name := range slices.Sorted(maps.Keys(agents)) {
		a := agents[name]
		if a.Reason == nil && a.Workers == 0 {
			a.Reason = view.Given("no live worker serves it")
		}
		a.Available = a.Reason == nil
		out.Items = append(out.Items, *a)
	}
	return &body[api.Page[api.Agent]]{out}, nil
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

// agentOf returns what this process knows of an agent.
func (s *Server) agentOf(name string) *api.Agent {
	d := s.options.DescribeAgent(name)
	return &api.Agent{
		Name: name, Kind: view.Given(d.Kind), Version: view.Given(d.Version), Program: view.Given(d.Program), Reason: view.Given(d.Problem),
		Isolation: view.Given(d.Isolation),
	}
}

func (s *Server) listWorkers(ctx context.Context, _ *empty) (*body[api.Page[api.Worker]], error) {
	out := api.Page[api.Worker]{Items: []api.Worker{}}
	err := s.options.Ledger.View(ctx, func(rd store.Reader) error {
		rows, err := liveWorkers(rd)
		if err != nil {
			return err
		}
		for _, w := range rows {
			if who := requestOf(ctx).who; !who.Has(auth.PermissionAdmin) && w.Owner != who.Name {
				continue
			}
			held, err := rd.Threads(store.ThreadQuery{Worker: w.ID})
			if err != nil {
				return err
			}
			agents := slices.Sorted(slices.Values(w.Agents))
			out.Items = append(out.Items, api.Worker{
				ID: w.ID, Host: w.Host, PID: w.PID, Agents: append([]string{}, agents...),
				Running: len(held), LeaseUntil: w.LeaseUntil,
			})
		}
		return nil
	})
	slices.SortFunc(out.Items, func(a, b api.Worker) int { return cmp.Compare(a.ID, b.ID) })
	return &body[api.Page[api.Worker]]{out}, err
}

// stats counts the rows that the caller may see.
func (s *Server) stats(ctx context.Context, _ *empty) (*body[api.Stats], error) {
	who := requestOf(ctx).who
	all := who.Has(auth.PermissionAdmin)
	now := time.Now()
	sum := totals{runs: zeroRuns(), due: now}
	err := s.options.Ledger.View(ctx, func(rd store.Reader) error {
		if !all {
			own, err := rd.Count(store.CountQuery{Owner: &who.Name})
			sum.add(own, 1)
			return err
		}
		counts, err := rd.Count(store.CountQuery{})
		if err != nil {
			return err
		}
		sum.add(counts, 1)
		hidden, err := rd.Count(store.CountQuery{Owner: new(string)})
		sum.add(store.Counts{Threads: hidden.Threads, Runs: hidden.Runs}, -1)
		return err
	})
	if err == nil && !all && who.Namespace != "" {
		err = s.countNamespace(ctx, who, &sum)
	}
	if err != nil {
		return nil, err
	}
	return &body[api.Stats]{api.Stats{
		Threads: sum.threads, Runs: sum.runs, OldestDueMS: now.Sub(sum.due).Milliseconds(), StartedAt: s.started,
	}}, nil
}

// countNamespace adds the threads of other owners in the namespace of who. It reads a page per
// view, so that no view is held for long; the pages are of different moments.
func (s *Server) countNamespace(ctx context.Context, who *auth.Token, sum *totals) error {
	q := store.ThreadQuery{Prefix: who.Namespace, Limit: scanPage}
	for end := false; !end; {
		err := s.options.Ledger.View(ctx, func(rd store.Reader) error {
			rows, err := rd.Threads(q)
			end = len(rows) < scanPage
			for _, t := range rows {
				q.After = t.ID
				if t.Owner == who.Name || !who.CanSee(t) {
					continue
				}
				counts, err := rd.Count(store.CountQuery{Thread: t.ID})
				if err != nil {
					return err
				}
				counts.Threads = 1
				if t.Due.Agent != "" {
					counts.Due = t.Due.At
				}
				sum.add(counts, 1)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// totals adds up counts.
type totals struct {
	threads int
	runs    map[mailroom.Status]int
	due     time.Time // the earliest due time, at most now
}

func (s *totals) add(c store.Counts, sign int) {
	s.threads += sign * c.Threads
	for status, n := range c.Runs {
		s.runs[status] += sign * n
	}
	if !c.Due.IsZero() && c.Due.Before(s.due) {
		s.due = c.Due
	}
}

func zeroRuns() map[mailroom.Status]int {
	return map[mailroom.Status]int{
		mailroom.StatusQueued: 0, mailroom.StatusRunning: 0, mailroom.StatusWaiting: 0, mailroom.StatusCompleted: 0, mailroom.StatusFailed: 0, mailroom.StatusCancelled: 0,
	}
}

// countRuns counts all runs by status.
func (s *Server) countRuns(ctx context.Context) (map[mailroom.Status]int, error) {
	sum := totals{runs: zeroRuns()}
	err := s.options.Ledger.View(ctx, func(rd store.Reader) error {
		counts, err := rd.Count(store.CountQuery{})
		sum.add(counts, 1)
		return err
	})
	return sum.runs, err
}

// metrics answers a scrape. Row counts are read at each scrape.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	out := w.(*response) // ServeHTTP makes no other
	err := checkQuery(r.URL.Query(), nil)
	var runs map[mailroom.Status]int
	var tokens []*auth.Token
	if err == nil {
		runs, err = s.countRuns(r.Context())
	}
	if err == nil {
		tokens, err = s.options.Ledger.Tokens(r.Context())
	}
	if err != nil {
		s.refuse(out, r, err)
		return
	}
	s.options.Metrics.Present(runs, s.streamSlots.total(), s.backlog.Bytes())
	s.options.Metrics.Uses(s.quotaLevels(tokens))
	s.options.Metrics.ServeHTTP(out, r)
}

// quotaLevels returns, per quota, the use of all tokens together and the highest ratio of use to
// limit. It has no value per token, to keep the cardinality fixed.
func (s *Server) quotaLevels(tokens []*auth.Token) map[auth.Quota]metrics.Level {
	all := map[auth.Quota]metrics.Level{}
	for _, q := range auth.AllQuotas() {
		var l metrics.Level
		for _, t := range tokens {
			used := s.usageOf(t).Of(q)
			l.Used += used
			if limit := t.Quotas.WithDefaults(s.defaultQuotas())[q]; limit > 0 {
				l.Fullest = max(l.Fullest, float64(used)/float64(limit))
			}
		}
		all[q] = l
	}
	return all
}
