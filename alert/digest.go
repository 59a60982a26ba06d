package alert

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/internal/display"
	"mailroom/store"
)

// Summary is the content of a digest: the runs that ended in a period, and the questions that are open now.
//
// The period of a daily digest begins and ends at full hours of UTC, because it adds up the hourly rows of the
// summary, which are kept for 100 days. A shorter period begins and ends at full minutes, whose rows are kept for three
// days: of a digest that waits longer than that for its target, only the full hours are left. So the periods follow
// each other without a gap or an overlap, also if a digest waits for days.
type Summary struct {
	From    time.Time // a full hour of UTC, or a full minute
	Until   time.Time // exclusive
	Ended   map[mailroom.Status]int64
	Cost    int64 // cost of the ended runs, in billionths of a USD
	Waiting int   // open questions, at most maxWaiting + 1
	Oldest  time.Time
	// Questions are the oldest open ones, at most maxQuestions.
	Questions []openQuestion
	Failures  []Failure // the groups with the most failures of the period, at most maxFailures
	Cut       bool      // the period may have more failed runs than Failures covers
	Counted   int       // number of failed runs that Failures covers, if Cut is set
	// Branches is a report of the period that has only its branches. It is nil if the period is shorter than
	// branchesPeriod.
	Branches *api.Report
}

// Failure is a group of failures of an agent.
type Failure struct {
	Agent string
	Count int
	Words string
}

const (
	maxWaiting  = 100
	maxFailures = 5
	// maxQuestions is how many of the open questions a digest names.
	maxQuestions = 3
	// maxBranches is how many of the branches a digest names.
	maxBranches = 5
	// branchesPeriod is the shortest period whose digest names branches: the ends of runs have no index, so a report
	// reads up to maxReportRuns rows, which is too much for each minute.
	branchesPeriod = 12 * time.Hour
	// countedFailures is how many of the newest failed runs are grouped, and countedBytes bounds their size.
	countedFailures = 1000
	countedBytes    = 4 << 20
)

// readSummary reads the summary of a period. What is no longer kept is left out of the period.
func readSummary(r store.Reader, from, until, now time.Time) (*Summary, error) {
	s := &Summary{From: from.UTC().Truncate(time.Minute), Until: until, Ended: map[mailroom.Status]int64{}}
	s.keep(now)
	if err := s.count(r); err != nil {
		return nil, err
	}
	open, err := openTickets(r)
	if err != nil {
		return nil, err
	}
	if s.Waiting = len(open); len(open) > 0 {
		s.Oldest = open[0].OpenedAt
	}
	if s.Questions, err = questions(r, open[:min(len(open), maxQuestions)]); err != nil {
		return nil, err
	}
	if s.Until.Sub(s.From) >= branchesPeriod {
		if s.Branches, err = reportBranches(r, s.From, s.Until); err != nil {
			return nil, err
		}
	}
	failed, err := r.Runs(store.RunQuery{Statuses: []mailroom.Status{mailroom.StatusFailed}, Limit: countedFailures,
		Bytes: countedBytes})
	if err != nil {
		return nil, err
	}
	var rest []*mailroom.Run
	if n := len(failed); n > 0 {
		if rest, err = r.Runs(store.RunQuery{Statuses: []mailroom.Status{mailroom.StatusFailed},
			From: failed[n-1].Key, Limit: 1}); err != nil {
			return nil, err
		}
	}
	failed = slices.DeleteFunc(failed, func(run *mailroom.Run) bool {
		return run.FinishedAt.Before(s.From) || !run.FinishedAt.Before(s.Until)
	})
	// A run that was submitted long before the period may have failed in it. So whether all failures were read is
	// decided by the summary, which counts them by their end, and not by the age of the oldest run that was read. It
	// counts a run that was retried by hand twice, so it decides only if there are runs that were not read.
	if s.Failures = groupFailures(failed); len(rest) > 0 && int64(len(failed)) < s.Ended[mailroom.StatusFailed] {
		s.Counted, s.Cut = len(failed), true
	}
	return s, nil
}

// keep leaves out of the period what the summary may not keep any more at now: the minutes before the first full hour
// and after the last one, and then hours.
func (s *Summary) keep(now time.Time) {
	kept := func(step time.Duration) time.Time {
		return now.Add(-store.KeepSummaries(step)).UTC().Truncate(time.Hour).Add(time.Hour)
	}
	if s.From.Before(kept(store.StepMinute)) {
		s.From = nextHour(s.From)
	}
	if last := s.Until.Truncate(time.Hour); last.Before(kept(store.StepMinute)) {
		s.Until = last
	}
	if first := kept(store.StepHour); s.From.Before(first) {
		s.From = first
	}
}

// nextHour returns the first full hour that is not before t.
func nextHour(t time.Time) time.Time { return t.Add(time.Hour - 1).Truncate(time.Hour) }

// count adds up the runs that ended in the period: its full hours, and the minutes before and after them.
func (s *Summary) count(r store.Reader) error {
	first, last := nextHour(s.From), s.Until.Truncate(time.Hour)
	parts := []store.SummaryQuery{
		{Step: store.StepMinute, From: s.From, To: first},
		{Step: store.StepHour, From: first, To: last},
		{Step: store.StepMinute, From: last, To: s.Until},
	}
	if first.After(last) { // within one hour
		parts = []store.SummaryQuery{{Step: store.StepMinute, From: s.From, To: s.Until}}
	}
	all := ""
	for i := range parts {
		if part := &parts[i]; !part.From.Before(part.To) {
			continue
		}
		parts[i].Agent = &all
		counts, err := r.Count(store.CountQuery{Summaries: &parts[i]})
		if err != nil {
			return err
		}
		for _, row := range counts.Summaries {
			s.Ended[row.Key.Status] += row.Sums.Runs
			s.Cost += row.Sums.Cost
		}
	}
	return nil
}

// openQuestion is a question in a digest.
type openQuestion struct {
	Agent  string
	Thread string
	Words  string
}

// questions returns what tickets ask.
func questions(r store.Reader, open []*mailroom.Ticket) (all []openQuestion, err error) {
	var ids []string
	for _, k := range open {
		ids = append(ids, k.Run)
	}
	runs, err := runsByID(r, ids)
	for _, k := range open {
		q := openQuestion{Thread: k.Thread, Words: strings.TrimSpace(k.Prompt + " " + k.Action)}
		if run := runs[k.Run]; run != nil {
			q.Agent = run.Agent
		}
		all = append(all, q)
	}
	return all, err
}

// groupFailures returns the groups of failed runs with the most runs, at most maxFailures. Of groups of the same
// size, those with newer runs come first. failed is sorted, newest first.
func groupFailures(failed []*mailroom.Run) (groups []Failure) {
	place := map[[2]string]int{}
	for _, run := range failed {
		if run.ErrorGroup == "" {
			continue
		}
		of := [2]string{run.ErrorGroup, run.Agent}
		at, ok := place[of]
		if !ok {
			at = len(groups)
			place[of] = at
			groups = append(groups, Failure{Agent: run.Agent})
			if run.Error != nil {
				groups[at].Words = run.Error.Message
			}
		}
		groups[at].Count++
	}
	slices.SortStableFunc(groups, func(a, b Failure) int { return b.Count - a.Count })
	return groups[:min(len(groups), maxFailures)]
}

// openTickets returns the oldest open questions, at most maxWaiting + 1.
func openTickets(r store.Reader) ([]*mailroom.Ticket, error) {
	return r.Tickets(store.TicketQuery{
		States: []mailroom.TicketState{mailroom.TicketOpen},
		Kinds:  []mailroom.TicketKind{mailroom.TicketApproval, mailroom.TicketInput},
		Oldest: true, Limit: maxWaiting + 1,
	})
}

// Title returns the digest in one line.
func (s *Summary) Title() string {
	return fmt.Sprintf("%d done, %d failed, %s waiting", s.Ended[mailroom.StatusCompleted], s.Ended[mailroom.StatusFailed],
		s.waiting())
}

func (s *Summary) waiting() string {
	if s.Waiting > maxWaiting {
		return fmt.Sprintf("more than %d", maxWaiting)
	}
	return fmt.Sprint(s.Waiting)
}

// Body returns the digest in lines.
func (s *Summary) Body(a *Alert) string {
	lines := []string{
		"From " + inZone(s.From, a.Zone) + " to " + inZone(s.Until, a.Zone) + ":",
		fmt.Sprintf("%d runs completed, %d failed, %d cancelled", s.Ended[mailroom.StatusCompleted],
			s.Ended[mailroom.StatusFailed], s.Ended[mailroom.StatusCancelled]),
		"cost " + display.Dollars(float64(s.Cost)/1e9),
		"questions that wait for a decision now: " + s.waiting(),
	}
	if !s.Oldest.IsZero() {
		lines = append(lines, "the oldest since "+inZone(s.Oldest, a.Zone))
	}
	for _, q := range s.Questions {
		if asked := textOf(a, q.Words); asked != "" {
			lines = append(lines, display.Line(q.Agent+" asks in "+q.Thread+": "+firstLine(asked)))
		}
	}
	lines = append(lines, s.branchLines(a)...)
	switch {
	case s.Cut && s.Counted == 0:
		lines = append(lines, fmt.Sprintf("why they failed is left out: %d other runs failed that were submitted later",
			countedFailures))
	case s.Cut:
		lines = append(lines, fmt.Sprintf("of the newest %d failed runs:", s.Counted))
	}
	for _, f := range s.Failures {
		line := fmt.Sprintf("%s failed %d times", f.Agent, f.Count)
		if words := textOf(a, f.Words); words != "" {
			line += ": " + display.Line(firstLine(words))
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// branchLines says how many branches wait for a review, and names the first ones.
func (s *Summary) branchLines(a *Alert) []string {
	if s.Branches == nil || len(s.Branches.Branches) == 0 {
		return nil
	}
	all, most := s.Branches.Branches, ""
	if s.Branches.LookedTo != nil || s.Branches.MoreThreads > 0 {
		most = "at least "
	}
	lines := []string{fmt.Sprintf("branches to review: %s%d", most, len(all)+s.Branches.MoreBranches)}
	for i := range all[:min(len(all), maxBranches)] {
		b := &all[i]
		if name := textOf(a, b.Branch); name != "" {
			lines = append(lines, display.Line(name+" of "+b.Agent+": "+branchState(b)))
		}
	}
	return lines
}

// branchState says where a branch is.
func branchState(b *api.ReportBranch) string {
	switch {
	case b.IsLocal():
		return "not pushed"
	case b.PullRequest != "" && b.State != "":
		return b.State + " " + b.PullRequest
	case b.PullRequest != "":
		return b.PullRequest
	}
	return "pushed to " + b.Pushed
}
