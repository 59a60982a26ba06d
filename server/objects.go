package server

import (
	"encoding/json"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/internal/thread"
	"mailroom/store"
)

// showRuns makes the wire objects of runs. Worker and lease come from the rows of the threads and
// workers.
func showRuns(rd store.Reader, rows []*mailroom.Run) ([]api.Run, error) {
	holders, err := holders(rd, rows)
	if err != nil {
		return nil, err
	}
	out := make([]api.Run, 0, len(rows))
	for _, r := range rows {
		shown := showRun(r)
		if w := holders[r.ID]; w != nil {
			shown.Worker, shown.LeaseUntil = &w.ID, known(w.LeaseUntil)
		}
		out = append(out, shown)
	}
	return out, nil
}

// holders returns the workers of the running runs, by run id.
func holders(rd store.Reader, rows []*mailroom.Run) (map[string]*store.Worker, error) {
	var threads []string
	for _, r := range rows {
		if r.Status == mailroom.StatusRunning {
			threads = append(threads, r.Thread)
		}
	}
	if len(threads) == 0 {
		return nil, nil
	}
	holding, err := rd.Threads(store.ThreadQuery{IDs: threads})
	if err != nil {
		return nil, err
	}
	workers, err := rd.Workers()
	if err != nil {
		return nil, err
	}
	byID := map[string]*store.Worker{}
	for _, w := range workers {
		byID[w.ID] = w
	}
	out := map[string]*store.Worker{}
	for _, t := range holding {
		if t.Worker == "" {
			continue
		}
		out[t.Current] = byID[t.Worker]
		if out[t.Current] == nil {
			out[t.Current] = &store.Worker{ID: t.Worker} // its row was deleted first
		}
	}
	return out, nil
}

func showRun(r *mailroom.Run) api.Run {
	out := api.Run{
		ID: r.ID, Thread: r.Thread, Agent: r.Agent, AgentVersion: given(r.AgentVersion),
		Status: r.Status, Stopping: r.Stop != "" && !r.Status.Finished(), Mode: r.Mode,
		Priority: r.Priority, Place: r.Place,
		Attempt: r.Attempt, Failures: r.Failures, Crashes: r.Crashes, MaxAttempts: r.MaxAttempts,
		AvailableAt: r.AvailableAt, NotBefore: known(r.NotBefore),
		Key: given(r.SubmitKey), Parent: given(r.Parent), Origin: r.Origin,
		Options: r.Options, Metadata: r.Metadata, Messages: []string{},
		Reply: r.Reply, Error: r.Error, Reason: given(r.Reason), Steps: r.Step,
		Wait: showWait(r), Progress: r.Progress,
		CreatedAt: r.CreatedAt, StartedAt: known(r.StartedAt), FinishedAt: known(r.FinishedAt),
	}
	if out.Metadata == nil {
		out.Metadata = map[string]string{}
	}
	if r.Usage != (mailroom.Usage{}) {
		u := api.Usage(r.Usage)
		out.Usage = &u
	}
	for _, in := range r.Inputs {
		out.Messages = append(out.Messages, in.Message)
	}
	return out
}

func showWait(r *mailroom.Run) *api.Wait {
	if r.Wait == nil || r.Status != mailroom.StatusWaiting {
		return nil
	}
	out := &api.Wait{Tickets: []string{}, Until: "all"}
	if r.Wait.Any {
		out.Until = "any"
	}
	for _, name := range r.Wait.Names {
		out.Tickets = append(out.Tickets, thread.TicketID(r.ID, name))
	}
	return out
}

// given returns nil for "".
func given[S ~string](s S) *S {
	if s == "" {
		return nil
	}
	return &s
}

// known returns nil for the zero time.
func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// showThreads makes the wire objects of threads. What their rows lack is derived from the rows of
// their runs.
func showThreads(rd store.Reader, rows []*mailroom.Thread) ([]api.Thread, error) {
	out := make([]api.Thread, 0, len(rows))
	for _, t := range rows {
		shown, err := showThread(rd, t)
		if err != nil {
			return nil, err
		}
		out = append(out, shown)
	}
	return out, nil
}

func showThread(rd store.Reader, t *mailroom.Thread) (api.Thread, error) {
	out := api.Thread{
		ID: t.ID, Agent: t.Agent, Owner: t.Owner, LastSeq: t.LastSeq, OldestSeq: t.FirstSeq,
		Parent: given(t.Parent), DeliverTo: given(t.DeliverTo), Metadata: t.Metadata, CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt,
	}
	if len(out.Metadata) == 0 {
		out.Metadata = json.RawMessage("{}")
	}
	var err error
	if out.Queued, err = countQueued(rd, t.ID); err != nil {
		return out, err
	}
	if out.Status, err = threadStatus(rd, t, out.Queued); err != nil {
		return out, err
	}
	if out.Status == api.ThreadWaiting {
		out.WaitingRun = given(t.Current)
	} else {
		out.ActiveRun = given(t.Current)
	}
	latest, err := rd.Runs(store.RunQuery{Thread: t.ID, Limit: 1})
	if err == nil && len(latest) > 0 {
		out.LatestRun = &latest[0].ID
	}
	return out, err
}

func countQueued(rd store.Reader, thread string) (int, error) {
	queued, err := rd.Count(store.CountQuery{Thread: thread, Set: store.RunsQueued})
	if err != nil {
		return 0, err
	}
	held, err := rd.Count(store.CountQuery{Thread: thread, Set: store.RunsScheduled})
	return queued.Sum() + held.Sum(), err
}

// threadStatus is the status of the thread's current run, or without one whether runs are queued.
func threadStatus(rd store.Reader, t *mailroom.Thread, queued int) (string, error) {
	switch {
	case t.Worker != "":
		return api.ThreadRunning, nil
	case t.Current == "" && queued > 0:
		return api.ThreadQueued, nil
	case t.Current == "":
		return api.ThreadIdle, nil
	}
	current, err := rd.Runs(store.RunQuery{IDs: []string{t.Current}})
	if err == nil && len(current) == 1 && current[0].Status == mailroom.StatusWaiting {
		return api.ThreadWaiting, nil
	}
	return api.ThreadQueued, err
}
