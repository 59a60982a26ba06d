package alert

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/entry"
	"mailroom/internal/reserved"
	"mailroom/schedule"
	"mailroom/schedule/plan"
	"mailroom/store"
)

// questionKinds are the tickets that a person decides.
func questionKinds() []mailroom.TicketKind {
	return []mailroom.TicketKind{mailroom.TicketApproval, mailroom.TicketInput}
}

// ticketQuery returns the query of the tickets that the report may have, of any kind.
func (b *reportBuilder) ticketQuery() (q store.TicketQuery, some bool) {
	q = store.TicketQuery{Limit: reportPage, Bytes: reportBytes}
	if !b.query.All {
		q.Owner, q.Threads = b.query.Owner, b.query.Threads
	}
	return q, b.query.All || q.Owner != "" || len(q.Threads) > 0
}

// readQuestions reads the open questions and those that were decided in the period.
func (b *reportBuilder) readQuestions() error {
	open, some := b.ticketQuery()
	if !some {
		return nil
	}
	open.States, open.Kinds = []mailroom.TicketState{mailroom.TicketOpen}, questionKinds()
	open.Oldest, open.Limit = true, maxWaiting
	rows, err := b.reader.Tickets(open)
	if err != nil {
		return err
	}
	items := &b.out.Questions
	shown := 0
	err = b.eachQuestion(rows, func(k *mailroom.Ticket) {
		if k.StateAt(b.now) != mailroom.TicketOpen {
			return
		}
		question := showQuestion(k, b.now)
		if a := b.agents[k.Agent]; a != nil {
			a.asks++
			if i := slices.IndexFunc(a.Items, func(r api.ReportRun) bool { return r.ID == k.Run }); i >= 0 {
				a.Items[i].Text = question.Text
			}
		}
		if items.Open++; shown < shownOpen {
			shown++
			items.Items = append(items.Items, question)
		}
	})
	if err != nil {
		return err
	}
	ended, err := b.endedQuestions()
	if err != nil {
		return err
	}
	slices.SortStableFunc(ended, func(x, y api.ReportQuestion) int {
		return cmp.Or(-compareEnds(endOf(&x), endOf(&y)), cmp.Compare(x.Ticket, y.Ticket))
	})
	for _, k := range ended {
		if k.State == mailroom.TicketDecided {
			items.Decided++
		}
	}
	items.Items = append(items.Items, ended[:min(len(ended), shownDecided)]...)
	items.More = items.Open + len(ended) - len(items.Items)
	return nil
}

// endedQuestions returns the questions that were decided, or expired, in the period. It picks them from the tickets of
// all kinds: no index has the decided questions, and a store would look for them among all tickets of the history.
func (b *reportBuilder) endedQuestions() (ended []api.ReportQuestion, err error) {
	q, _ := b.ticketQuery()
	q.From = b.query.BeforeTicket
	first := b.query.Since.Add(-reportLookback)
	for read := 0; ; {
		rows, err := b.reader.Tickets(q)
		if err != nil || len(rows) == 0 {
			return ended, err
		}
		err = b.eachQuestion(rows, func(k *mailroom.Ticket) {
			if shown := showQuestion(k, b.now); shown.State != mailroom.TicketOpen {
				if at := endOf(&shown); at != nil && b.within(*at) {
					ended = append(ended, shown)
				}
			}
		})
		if err != nil {
			return nil, err
		}
		oldest := rows[len(rows)-1]
		if q.From = oldest.Key; oldest.OpenedAt.Before(first) {
			return ended, nil
		}
		if read += len(rows); read >= maxReportAsked {
			b.looked(oldest.OpenedAt)
			return ended, nil
		}
	}
}

// endOf returns when a question was decided or expired, or nil.
func endOf(k *api.ReportQuestion) *time.Time {
	if k.State == mailroom.TicketExpired {
		return cmp.Or(k.DecidedAt, k.ExpiresAt)
	}
	return k.DecidedAt
}

// eachQuestion calls f for the tickets of rows that the report may have.
func (b *reportBuilder) eachQuestion(rows []*mailroom.Ticket, f func(*mailroom.Ticket)) error {
	var threads []string
	for _, k := range rows {
		threads = append(threads, k.Thread)
	}
	see, err := b.visible(threads)
	for _, k := range rows {
		if err == nil && see(k.Thread) && (b.query.Agent == "" || b.query.Agent == k.Agent) &&
			k.OpenedAt.Before(b.query.Until) && slices.Contains(questionKinds(), k.Kind) {
			f(k)
		}
	}
	return err
}

func showQuestion(k *mailroom.Ticket, now time.Time) api.ReportQuestion {
	out := api.ReportQuestion{Ticket: k.ID, Run: k.Run, Thread: k.Thread, Agent: k.Agent, Kind: k.Kind,
		State: k.StateAt(now), Text: questionLine(k),
		ExpiresAt: k.ExpiresAt,
		Decision:  k.Decision, Reason: reportLine(k.Reason), DecidedBy: k.DecidedBy, DecidedAt: k.DecidedAt}
	if !k.OpenedAt.IsZero() {
		out.OpenedAt = &k.OpenedAt
	}
	var answer string
	if out.Reason == "" && json.Unmarshal(k.Answer, &answer) == nil {
		out.Reason = reportLine(answer)
	}
	return out
}

// questionLine returns what a ticket asks, with its action unless the question names it.
func questionLine(k *mailroom.Ticket) string {
	text, action := clip(k.Prompt), clip(k.Action)
	if !strings.Contains(text, action) {
		text += " " + action
	}
	return gistLine(strings.TrimSpace(text))
}

// clip bounds a text; the report shows its begin.
func clip(text string) string { return text[:min(len(text), 8*reportText)] }

// readBranches reads the branches of the threads whose runs completed last. An agent writes what its branch has in the
// last step of a run, so a few entries before the end of the run are looked at.
func (b *reportBuilder) readBranches() error {
	runs := slices.SortedFunc(maps.Values(b.newest), func(x, y endedRun) int {
		return cmp.Or(y.at.Compare(x.at), strings.Compare(x.id, y.id))
	})
	var all []api.ReportBranch
	for _, run := range runs[:min(len(runs), lookedBranches)] {
		found, err := b.reader.Entries(store.EntryQuery{Thread: run.thread, Run: run.id, Kinds: []string{entry.KindTree},
			After: max(run.seq-treeBeforeSettle, 0), Before: run.seq + 1, Backward: true, Limit: 1})
		if err != nil {
			return err
		}
		for _, e := range found {
			if t := entry.TreeOf(e); t != nil && (t.Commits > 0 || t.Left != "") {
				all = append(all, showBranch(run, t))
			}
		}
	}
	slices.SortStableFunc(all, func(x, y api.ReportBranch) int { return branchRank(&x) - branchRank(&y) })
	b.out.Branches = append(b.out.Branches, all[:min(len(all), shownBranches)]...)
	b.out.MoreBranches = len(all) - len(b.out.Branches)
	b.out.MoreThreads = max(len(runs)-lookedBranches, 0)
	return b.readPulls()
}

// readPulls adds what the server knows of the pull requests of the branches that are shown.
func (b *reportBuilder) readPulls() error {
	var ids, pulls []string
	for i := range b.out.Branches {
		ids = append(ids, b.out.Branches[i].Thread)
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := b.reader.Threads(store.ThreadQuery{IDs: ids})
	if err != nil {
		return err
	}
	for _, t := range rows {
		pulls = append(pulls, reserved.PullsID(t.Owner, t.ID))
	}
	if rows, err = b.reader.Threads(store.ThreadQuery{IDs: pulls}); err != nil {
		return err
	}
	known := map[string]*entry.Pull{}
	for _, t := range rows {
		if p := entry.PullOf(t.State); p != nil && t.DeletedAt.IsZero() && t.Owner == reserved.Owner(t.ID) {
			known[p.Thread] = p
		}
	}
	for i := range b.out.Branches {
		if p := known[b.out.Branches[i].Thread]; p != nil {
			addPull(&b.out.Branches[i], p)
		}
	}
	slices.SortStableFunc(b.out.Branches, func(x, y api.ReportBranch) int { return branchRank(&x) - branchRank(&y) })
	return nil
}

// addPull adds what the server knows of a pull request to its branch. An agent may have written another branch.
func addPull(out *api.ReportBranch, p *entry.Pull) {
	if reportLine(p.Branch) != out.Branch || out.Pushed == "" {
		return
	}
	if p.Address != "" {
		out.PullRequest, out.Number = pullRequest(p.Address)
	}
	out.Unopened, out.Again = reportLine(p.Unopened), p.Again
	out.State, out.Trouble, out.Unread = p.State, reportLine(p.Trouble), reportLine(p.Unread)
	if !p.At.IsZero() {
		out.StateAt = &p.At
	}
}

// reportBranches returns a report of all threads that has only its branches.
func reportBranches(r store.Reader, since, until time.Time) (*api.Report, error) {
	b := newReport(r, ReportQuery{Since: since, Until: until, All: true})
	err := b.readRuns()
	if err == nil {
		err = b.readBranches()
	}
	return b.out, err
}

// branchRank orders branches: work that only a worktree has, then pull requests, then what was pushed, then what needs
// no review any more.
func branchRank(b *api.ReportBranch) int {
	switch {
	case b.IsLocal():
		return 0
	case b.IsFinal() && b.Trouble == "":
		return 3
	case b.PullRequest != "":
		return 1
	}
	return 2
}

func showBranch(run endedRun, t *entry.Tree) api.ReportBranch {
	out := api.ReportBranch{Thread: run.thread, Run: run.id, Agent: run.agent, At: run.at, Branch: reportLine(t.Branch),
		Head: reportLine(t.Head), Commits: max(t.Commits, 0), Pushed: reportLine(t.Pushed), Unpushed: reportLine(t.Unpushed),
		Unopened: reportLine(t.Unopened), Left: reportLine(t.Left)}
	out.PullRequest, out.Number = pullRequest(t.PullRequest)
	return out
}

// unlinked has the characters that no address has in a report, because they end an address in HTML or Markdown.
const unlinked = "<>\"'`()[]\\|"

// pullRequest returns the address of a pull request and its number, 0 if it has none. Any worker may write the entry,
// so an address that is no web page is dropped.
func pullRequest(address string) (string, int) {
	const most = 500
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || len(address) > most ||
		strings.ContainsFunc(address, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(unlinked, r) }) {
		return "", 0
	}
	n, err := strconv.Atoi(u.Path[strings.LastIndexByte(u.Path, '/')+1:])
	if err != nil || n < 0 {
		n = 0
	}
	return address, n
}

// readSchedules reads what became of the times of schedules. Schedules are no agents.
func (b *reportBuilder) readSchedules() error {
	prefix := reserved.Schedule
	if !b.query.All {
		if b.query.Owner == "" {
			return nil
		}
		prefix = reserved.ScheduleID(b.query.Owner, "")
	}
	rows, err := b.reader.Threads(store.ThreadQuery{Prefix: prefix, Limit: listedSchedules, Bytes: reportBytes})
	if err != nil {
		return err
	}
	rows = slices.DeleteFunc(rows, func(t *mailroom.Thread) bool {
		return !t.DeletedAt.IsZero() || reserved.IsBook(t.ID) || !b.query.All && !b.query.See(t)
	})
	states, err := schedule.Read(b.reader, rows, b.now)
	if err != nil {
		return err
	}
	for _, s := range states {
		shown, some := b.showSchedule(s)
		if !some || b.query.Agent != "" && s.Spec.Agent != b.query.Agent {
			continue
		}
		if len(b.out.Schedules) == shownSchedules {
			b.out.MoreSchedules++
			continue
		}
		b.out.Schedules = append(b.out.Schedules, shown)
	}
	return nil
}

// showSchedule sums up the times of a schedule in the period; some is false without any.
func (b *reportBuilder) showSchedule(s *plan.State) (out api.ReportSchedule, some bool) {
	out.Owner, out.Name = reserved.SchedulePlace(s.ID)
	for _, fire := range s.Open {
		if b.within(fire.Nominal) {
			out.Sent++
		}
	}
	for _, res := range s.Results {
		switch {
		case !b.within(res.Nominal):
			continue
		case res.Status == "":
			out.Skipped += max(res.Count, 1)
			out.Why = reportLine(cmp.Or(res.Error, string(res.Reason)))
			continue
		case res.Status == mailroom.StatusFailed:
			out.Failed++
			out.Why = reportLine(res.Error)
		}
		out.Sent++
	}
	const kept = 10
	out.More = len(s.Results) >= kept && b.within(s.Results[0].Nominal)
	if p := s.Paused; p != nil {
		out.Paused = &api.SchedulePause{At: p.At, By: p.By, Note: reportLine(p.Note)}
		some = b.within(p.At)
	}
	return out, some || out.Sent+out.Skipped > 0
}
