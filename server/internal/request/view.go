package request

import (
	"encoding/json"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/internal/display"
	"mailroom/internal/reserved"
	"mailroom/internal/retry"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/thread"
)

// ShowRuns makes the wire objects of runs. Worker and lease come from the rows of the threads and
// workers.
func ShowRuns(rd store.Reader, rows []*mailroom.Run) ([]api.Run, error) {
	holders, err := holders(rd, rows)
	if err != nil {
		return nil, err
	}
	out := make([]api.Run, 0, len(rows))
	for _, r := range rows {
		shown := showRun(r)
		if r.WaitsOn != "" {
			shown.WaitsOn = &api.WaitsOn{Text: r.WaitsOn, Since: r.WaitsSince}
		}
		if w := holders[r.ID]; w != nil {
			shown.Worker, shown.LeaseUntil = &w.ID, Known(w.LeaseUntil)
		}
		out = append(out, shown)
	}
	return out, nil
}

// ShowRunsTo is ShowRuns with what keeps open runs from running, as far as the token who sees it.
func ShowRunsTo(rd store.Reader, who *auth.Token, rows []*mailroom.Run) ([]api.Run, error) {
	out, err := ShowRuns(rd, rows)
	if err != nil {
		return nil, err
	}
	all, err := ledger.WaitsFor(rd, rd.Now(), rows, SeesRun(who))
	for i := range out {
		for _, b := range all[out[i].ID] {
			out[i].WaitsFor = append(out[i].WaitsFor, showBlocker(&b))
		}
	}
	return out, err
}

// SeesRun returns whether the token who may see a run of a thread.
func SeesRun(who *auth.Token) func(*mailroom.Run, *mailroom.Thread) bool {
	return func(r *mailroom.Run, of *mailroom.Thread) bool {
		return (who.Terms.Run == "" || who.Terms.Run == r.ID) && who.CanSee(of)
	}
}

// BlockerText returns what an open run waits for as one line, without the marks of Markdown that a prompt can have.
func BlockerText(b *thread.Blocker) string {
	const most = 500 // characters; the texts of people and agents in it have 200 at most
	return display.Gist(b.Text(), most)
}

func showBlocker(b *thread.Blocker) api.Blocker {
	out := api.Blocker{Cause: b.Cause, Text: BlockerText(b), Until: Known(b.Until), Run: b.Run}
	for _, k := range b.Tickets {
		out.Tickets = append(out.Tickets, k.ID)
	}
	return out
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
	var ids []string
	for _, t := range holding {
		ids = append(ids, t.Worker)
	}
	workers, err := rd.Workers(ids...)
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
			out[t.Current] = &store.Worker{ID: t.Worker} // the store deleted the worker's row before the claim ended
		}
	}
	return out, nil
}

func showRun(r *mailroom.Run) api.Run {
	crashes := r.MaxCrashes()
	out := api.Run{
		ID: r.ID, Thread: r.Thread, Agent: r.Agent, AgentVersion: Given(r.AgentVersion),
		Status: r.Status, Stopping: r.Stop != "" && !r.Status.Finished(), Mode: r.Mode,
		Priority: r.Priority, Place: r.Place,
		Attempt: r.Attempt, Failures: r.Failures, Crashes: r.Crashes, MaxAttempts: r.MaxAttempts, MaxCrashes: &crashes,
		Retry:       shownRetry(r),
		AvailableAt: r.AvailableAt, NotBefore: Known(r.NotBefore), Deadline: shownDeadline(r),
		Key: Given(r.SubmitKey), LimitKey: Given(r.LimitKey), Parent: Given(r.Parent), Origin: r.Origin,
		Options: r.Options, Metadata: r.Metadata, Messages: []string{},
		Reply: r.Reply, Error: r.Error, LastError: r.LastError, ErrorGroup: Given(r.ErrorGroup), Reason: Given(r.Reason),
		Steps: r.Step,
		Wait:  showWait(r), Progress: r.Progress,
		CreatedAt: r.CreatedAt, StartedAt: Known(r.StartedAt), FinishedAt: Known(r.FinishedAt),
	}
	if out.Metadata == nil {
		out.Metadata = map[string]string{}
	}
	if r.Usage != (mailroom.Usage{}) {
		u := api.Usage(r.Usage)
		out.Usage = &u
	}
	out.Budget = api.FormatRunBudget(r)
	for _, in := range r.Inputs {
		out.Messages = append(out.Messages, in.Message)
	}
	return out
}

// shownRetry returns the retry policy of a run without its number of attempts, nil if it has the defaults.
func shownRetry(r *mailroom.Run) *api.RetryPolicy {
	p := retry.Of(r)
	p.Attempts = 0
	return api.FormatRetryPolicy(p)
}

// shownDeadline returns the deadline of a run, nil if it has none.
func shownDeadline(r *mailroom.Run) *time.Time {
	if !r.HasDeadline() {
		return nil
	}
	return Known(r.Deadline)
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

// Given returns a pointer to s, or nil for "", because the wire types show an unknown value as null.
func Given[S ~string](s S) *S {
	if s == "" {
		return nil
	}
	return &s
}

// Known returns a pointer to t, or nil for the zero time, because the wire types show an unknown time as null.
func Known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// ShowThread makes the wire object of a thread. What its row lacks is derived from the rows of its runs.
func ShowThread(rd store.Reader, t *mailroom.Thread) (api.Thread, error) {
	out, _, err := showThread(rd, t)
	return out, err
}

// showThread is ShowThread with the latest run of the thread, nil without one.
func showThread(rd store.Reader, t *mailroom.Thread) (out api.Thread, latest *mailroom.Run, err error) {
	out = api.Thread{
		ID: t.ID, Agent: t.Agent, Owner: t.Owner, LastSeq: t.LastSeq, OldestSeq: t.FirstSeq,
		Parent: Given(t.Parent), DeliverTo: Given(t.DeliverTo), Metadata: t.Metadata, CreatedAt: t.CreatedAt,
		UpdatedAt: t.UpdatedAt,
	}
	if len(out.Metadata) == 0 || reserved.Prefix(t.ID) == reserved.Alert { // how a browser is reached is a secret
		out.Metadata = json.RawMessage("{}")
	}
	if out.Queued, err = CountQueued(rd, t.ID); err != nil {
		return out, nil, err
	}
	if out.Status, err = ThreadStatus(rd, t, out.Queued); err != nil {
		return out, nil, err
	}
	if out.Status == api.ThreadWaiting {
		out.WaitingRun = Given(t.Current)
	} else {
		out.ActiveRun = Given(t.Current)
	}
	runs, err := rd.Runs(store.RunQuery{Thread: t.ID, Limit: 1})
	if err == nil && len(runs) > 0 {
		latest, out.LatestRun = runs[0], Given(runs[0].ID) // a pointer into the row would keep its reply
	}
	return out, latest, err
}

// CountQueued returns how many runs of a thread are queued or scheduled.
func CountQueued(rd store.Reader, thread string) (int, error) {
	queued, err := rd.Count(store.CountQuery{Thread: thread, Set: store.RunsQueued})
	if err != nil {
		return 0, err
	}
	held, err := rd.Count(store.CountQuery{Thread: thread, Set: store.RunsScheduled})
	return queued.Sum() + held.Sum(), err
}

// ThreadStatus is the status of the thread's current run, or without one whether runs are queued.
func ThreadStatus(rd store.Reader, t *mailroom.Thread, queued int) (string, error) {
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

// ShowTicket makes the wire object of a ticket.
func ShowTicket(k *mailroom.Ticket) api.Ticket {
	return api.Ticket{
		ID: k.ID, Thread: k.Thread, Run: k.Run, Agent: k.Agent, Name: k.Name, Kind: k.Kind,
		Prompt: Given(k.Prompt), Action: Given(k.Action), Arguments: k.Arguments, Digest: k.Digest,
		State: k.StateAt(time.Now()), OpenedAt: Known(k.OpenedAt), ExpiresAt: k.ExpiresAt, Answers: k.Answers, Holds: k.Holds,
		Decision: Given(k.Decision), Answer: k.Answer, Reason: Given(k.Reason),
		DecidedBy: Given(k.DecidedBy), DecidedAt: k.DecidedAt,
	}
}
