package alert

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/internal/display"
	"mailroom/internal/reserved"
	"mailroom/store"
	"mailroom/thread"
)

// A report reads rows in the order of their keys, nearly the order of their creation, from the end of its period
// back to reportLookback before it: a run may end, and a question be decided, long after it was made. The ends of runs
// have no index, because each end would have to write it. The bounds keep the cost independent of the history.

// ReportQuery selects the period of a report and the rows that it may have.
type ReportQuery struct {
	Since, Until time.Time
	Agent        string // "": all agents
	// All says that the report has the rows of all threads. Otherwise it has the rows of Owner's threads and of Threads,
	// which are keys. See says which threads the report may have; nil: all that are not deleted.
	All     bool
	Owner   string
	Threads []int64
	See     func(*mailroom.Thread) bool
	// Before is a key that no run of the period has, nor a later run, if the caller knows one; 0: unknown. BeforeTicket
	// is such a key of tickets.
	Before, BeforeTicket int64
	// Partial says that the caller has more threads than Threads.
	Partial bool
}

// Bounds of a report.
const (
	reportLookback = 7 * 24 * time.Hour
	reportPage     = 500
	reportBytes    = 4 << 20 // of a page
	maxReportRuns  = 5000    // rows that are read
	maxReportBytes = 64 << 20
	maxReportOpen  = 1000 // open runs that are older than the others
	maxReportAsked = 5000 // tickets that are read

	shownAgents      = 100
	shownRuns        = 5 // of an agent
	shownOpen        = 20
	shownDecided     = 10
	shownBranches    = 50
	shownSchedules   = 20
	lookedBranches   = 500 // threads whose branches are looked up
	listedSchedules  = 200
	reportText       = 200 // characters
	treeBeforeSettle = 12  // entries of a run behind which its last step has the branch
)

// MaxReport is the longest period of a report.
const MaxReport = 31 * 24 * time.Hour

// newReport returns the builder of a report that has no row yet.
func newReport(r store.Reader, q ReportQuery) *reportBuilder {
	return &reportBuilder{reader: r, query: q, now: r.Now(),
		agents: map[string]*agentPart{}, newest: map[string]endedRun{},
		out: &api.Report{Since: q.Since.UTC(), Until: q.Until.UTC(), Agents: []api.ReportAgent{},
			Branches: []api.ReportBranch{}, Schedules: []api.ReportSchedule{},
			Questions: api.ReportQuestions{Items: []api.ReportQuestion{}}}}
}

// ReadReport reads a report from a snapshot.
func ReadReport(r store.Reader, q ReportQuery) (*api.Report, error) {
	b := newReport(r, q)
	for _, read := range []func() error{b.readRuns, b.readOpen, b.readQuestions, b.readPauses, b.readBranches,
		b.readSchedules} {
		if err := read(); err != nil {
			return nil, err
		}
	}
	b.finish()
	return b.out, nil
}

// reportBuilder collects a report.
type reportBuilder struct {
	reader store.Reader
	query  ReportQuery
	now    time.Time
	out    *api.Report

	agents map[string]*agentPart
	newest map[string]endedRun // the last run that completed in the period, by thread
	lowest int64               // key of the oldest run that was read
}

// agentPart is what is known of an agent.
type agentPart struct {
	api.ReportAgent
	all  int // number of its runs
	asks int // number of its open questions
}

// endedRun is a run that completed, without its texts, and the last entry that it appended.
type endedRun struct {
	id, thread, agent string
	at                time.Time
	seq               int64
}

// visible returns which of the threads the report may have. A deleted thread, whose rows are dropped in steps, is not
// found.
func (b *reportBuilder) visible(ids []string) (func(id string) bool, error) {
	seen := map[string]bool{}
	if len(ids) == 0 {
		return func(string) bool { return false }, nil
	}
	slices.Sort(ids)
	rows, err := b.reader.Threads(store.ThreadQuery{IDs: slices.Compact(ids)})
	for _, t := range rows {
		seen[t.ID] = b.query.See == nil || b.query.See(t)
	}
	return func(id string) bool { return seen[id] }, err
}

// looked notes that rows were left out that were made before a time.
func (b *reportBuilder) looked(to time.Time) {
	if b.out.LookedTo == nil || b.out.LookedTo.Before(to) {
		to = to.UTC()
		b.out.LookedTo = &to
	}
}

// readRuns reads the runs that were submitted up to reportLookback before the period.
func (b *reportBuilder) readRuns() error {
	first := b.query.Since.Add(-reportLookback)
	q := store.RunQuery{From: b.query.Before, Limit: reportPage, Bytes: reportBytes}
	if b.query.All {
		q.Agent = b.query.Agent
	} else if q.Owner, q.Threads = b.query.Owner, b.query.Threads; q.Owner == "" && len(q.Threads) == 0 {
		return nil
	}
	var last time.Time
	for read, bytes := 0, 0; ; {
		if read >= maxReportRuns || bytes >= maxReportBytes {
			b.looked(last)
			return nil
		}
		rows, err := b.reader.Runs(q)
		if err != nil || len(rows) == 0 {
			return err
		}
		sizes, err := b.addRuns(rows)
		if err != nil {
			return err
		}
		read, bytes = read+len(rows), bytes+sizes
		oldest := rows[len(rows)-1]
		last, q.From, b.lowest = oldest.CreatedAt, oldest.Key, oldest.Key
		if last.Before(first) {
			return nil
		}
	}
}

// readOpen reads the open runs that are older. For a caller that does not see all threads they have no index; their
// questions have one. The runs of one agent are picked here, because an index has either the open runs or the agent's.
func (b *reportBuilder) readOpen() error {
	if !b.query.All || b.lowest == 0 {
		return nil
	}
	rows, err := b.reader.Runs(store.RunQuery{From: b.lowest, Limit: maxReportOpen, Bytes: 2 * reportBytes,
		Statuses: []mailroom.Status{mailroom.StatusWaiting, mailroom.StatusQueued, mailroom.StatusRunning}})
	if err != nil || len(rows) == 0 {
		return err
	}
	if len(rows) == maxReportOpen {
		b.looked(rows[len(rows)-1].CreatedAt)
	}
	_, err = b.addRuns(rows)
	return err
}

// addRuns adds the runs of a page that belong to the report, and returns about how many bytes the page has.
func (b *reportBuilder) addRuns(rows []*mailroom.Run) (bytes int, err error) {
	var threads []string
	for _, run := range rows {
		bytes += len(run.Options) + len(run.Checkpoint)
		if run.Reply != nil {
			bytes += len(*run.Reply)
		}
		if b.has(run) {
			threads = append(threads, run.Thread)
		}
	}
	see, err := b.visible(threads)
	if err != nil {
		return bytes, err
	}
	for _, run := range rows {
		if b.has(run) && see(run.Thread) {
			b.addRun(run)
		}
	}
	return bytes, nil
}

// has reports whether a run is the work of an agent that ended in the period, or is open.
func (b *reportBuilder) has(run *mailroom.Run) bool {
	if b.query.Agent != "" && run.Agent != b.query.Agent || isOfServer(run) || !run.CreatedAt.Before(b.query.Until) {
		return false
	}
	return !run.Status.Finished() || b.within(run.FinishedAt)
}

func (b *reportBuilder) within(at time.Time) bool {
	return !at.Before(b.query.Since) && at.Before(b.query.Until)
}

// isOfServer reports whether a run is no work of an agent: it delivers, alerts, or keeps a schedule.
func isOfServer(run *mailroom.Run) bool {
	return reserved.ForServer(run.Thread) || IsAgent(run.Agent) || thread.IsDelivery(run.View())
}

// agent returns the part of an agent.
func (b *reportBuilder) agent(name string) *agentPart {
	a := b.agents[name]
	if a == nil {
		a = &agentPart{ReportAgent: api.ReportAgent{Agent: name, Items: []api.ReportRun{}}}
		b.agents[name] = a
	}
	return a
}

func (b *reportBuilder) addRun(run *mailroom.Run) {
	a := b.agent(run.Agent)
	a.all++
	countRun(&a.Runs, run)
	countRun(&b.out.Runs, run)
	spent := []*api.ReportSpent{&a.Spent, &b.out.Spent}
	if !run.Status.Finished() {
		spent = []*api.ReportSpent{&a.OpenSpent, &b.out.OpenSpent}
	}
	for _, s := range spent {
		s.CostUSD, s.ComputedUSD = s.CostUSD+run.Usage.CostUSD, s.ComputedUSD+run.Usage.ComputedUSD
		s.InputTokens = store.AddSum(s.InputTokens, max(run.Usage.InputTokens, 0))
		s.OutputTokens = store.AddSum(s.OutputTokens, max(run.Usage.OutputTokens, 0))
	}
	a.Items = append(a.Items, showReportRun(run))
	slices.SortStableFunc(a.Items, compareReportRuns)
	a.Items = a.Items[:min(len(a.Items), shownRuns)]
	if run.Status == mailroom.StatusCompleted {
		old := b.newest[run.Thread]
		if at := run.FinishedAt.Compare(old.at); at > 0 || at == 0 && run.LastStep.Seq > old.seq {
			b.newest[run.Thread] = endedRun{run.ID, run.Thread, run.Agent, run.FinishedAt, run.LastStep.Seq}
		}
	}
}

func countRun(n *api.ReportRuns, run *mailroom.Run) {
	switch run.Status {
	case mailroom.StatusCompleted:
		n.Completed++
	case mailroom.StatusFailed:
		n.Failed++
	case mailroom.StatusCancelled:
		n.Cancelled++
	case mailroom.StatusWaiting:
		n.Waiting++
	case mailroom.StatusRunning:
		n.Running++
	default:
		n.Queued++
	}
	if run.Status.Finished() && run.Reason == mailroom.ReasonBudget {
		n.Budget++
	}
}

func showReportRun(run *mailroom.Run) api.ReportRun {
	out := api.ReportRun{ID: run.ID, Thread: run.Thread, Status: run.Status, Reason: run.Reason,
		CostUSD: run.Usage.CostUSD}
	if !run.FinishedAt.IsZero() {
		at := run.FinishedAt
		out.FinishedAt = &at
	}
	switch failure := cmp.Or(run.Error, run.LastError); {
	case failure != nil:
		out.Text = reportLine(failure.Message)
	case run.Reply != nil:
		out.Text = gistLine(*run.Reply)
	}
	return out
}

// reportLine returns the begin of the first line of a text for display.
func reportLine(text string) string {
	text = strings.TrimSpace(text[:min(len(text), 8*reportText)]) // a character has at most 4 bytes
	line, rest, _ := strings.Cut(text, "\n")
	chars := []rune(strings.ToValidUTF8(line, ""))
	cut := string(chars[:min(len(chars), reportText)])
	if len(chars) > reportText || rest != "" {
		cut += "…"
	}
	return display.Line(cut)
}

// gistLine returns the begin of a Markdown text for display.
func gistLine(text string) string { return display.Line(display.Gist(text, reportText)) }

// reportRank is the order of an agent's runs: first what waits for a person, then what failed, and then the rest.
func reportRank(status mailroom.Status) int {
	switch status {
	case mailroom.StatusWaiting:
		return 0
	case mailroom.StatusFailed:
		return 1
	}
	return 2
}

func compareReportRuns(a, b api.ReportRun) int {
	return cmp.Or(cmp.Compare(reportRank(a.Status), reportRank(b.Status)), -compareEnds(a.FinishedAt, b.FinishedAt),
		cmp.Compare(a.ID, b.ID))
}

// compareEnds orders times; an end that is not known yet is the latest.
func compareEnds(a, b *time.Time) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	return a.Compare(*b)
}

// readPauses adds the pauses of agents. A caller that does not see all threads gets the pauses of its own agents.
func (b *reportBuilder) readPauses() error {
	rows, err := b.reader.Agents()
	for _, p := range rows.Pauses {
		name, worker := p.Of()
		wanted := b.query.Agent == "" && b.query.All || b.query.Agent == name && b.query.All || b.agents[name] != nil
		if worker != "" || !wanted || IsAgent(name) {
			continue
		}
		pause := &api.Pause{By: p.Pauser(), At: p.At, Reason: reportLine(p.Reason)}
		if !p.Probe.IsZero() {
			pause.Probe = &p.Probe
		}
		b.agent(name).Paused = pause
	}
	return err
}

// finish sorts the agents and cuts the list.
func (b *reportBuilder) finish() {
	if b.query.Partial {
		b.looked(b.query.Until)
	}
	var all []*agentPart
	for _, a := range b.agents {
		a.More = a.all - len(a.Items)
		all = append(all, a)
	}
	slices.SortFunc(all, func(x, y *agentPart) int {
		return cmp.Or(y.asks-x.asks, y.Runs.Failed-x.Runs.Failed, y.all-x.all, strings.Compare(x.Agent, y.Agent))
	})
	for _, a := range all[:min(len(all), shownAgents)] {
		b.out.Agents = append(b.out.Agents, a.ReportAgent)
	}
	b.out.MoreAgents = len(all) - len(b.out.Agents)
}
