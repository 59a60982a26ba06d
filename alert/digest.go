package alert

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"mailroom"
	"mailroom/internal/display"
	"mailroom/store"
)

// Summary is what a digest tells: what ended since Since, and what waits now.
type Summary struct {
	Since    time.Time
	Ended    map[mailroom.Status]int64
	Cost     int64 // of the ended runs, in billionths of a USD
	Waiting  int   // open questions, at most maxWaiting + 1
	Oldest   time.Time
	Failures []Failure // the groups with the most failures that last failed since Since, at most maxFailures
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
	// countedFailures is how many of the newest failed runs are grouped.
	countedFailures = 1000
)

// readSummary reads the summary of what happened since a time. The ends of runs are counted by the hour.
func readSummary(r store.Reader, since, now time.Time) (*Summary, error) {
	s := &Summary{Since: since, Ended: map[mailroom.Status]int64{}}
	all := ""
	counts, err := r.Count(store.CountQuery{Summaries: &store.SummaryQuery{Step: store.StepHour, From: since.Truncate(time.Hour), To: now, Agent: &all}})
	if err != nil {
		return nil, err
	}
	for _, row := range counts.Summaries {
		s.Ended[row.Key.Status] += row.Sums.Runs
		s.Cost += row.Sums.Cost
	}
	open, err := openTickets(r)
	if err != nil {
		return nil, err
	}
	if s.Waiting = len(open); len(open) > 0 {
		s.Oldest = open[0].OpenedAt
	}
	failed, err := r.Count(store.CountQuery{Failures: true, Most: countedFailures})
	if err != nil {
		return nil, err
	}
	groups := slices.DeleteFunc(failed.Failures, func(g store.FailureCount) bool { return g.Last.Before(since) })
	slices.SortFunc(groups, func(a, b store.FailureCount) int { return cmp.Or(b.Runs-a.Runs, cmp.Compare(b.Key, a.Key)) })
	groups = groups[:min(len(groups), maxFailures)]
	var newest []string
	for _, g := range groups {
		newest = append(newest, g.Newest)
	}
	runs, err := runsByID(r, newest)
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		f := Failure{Agent: g.Agent, Count: g.Runs}
		if run := runs[g.Newest]; run != nil && run.Error != nil {
			f.Words = run.Error.Message
		}
		s.Failures = append(s.Failures, f)
	}
	return s, nil
}

// openTickets returns the oldest open questions, at most maxWaiting + 1.
func openTickets(r store.Reader) ([]*mailroom.Ticket, error) {
	return r.Tickets(store.TicketQuery{
		States: []mailroom.TicketState{mailroom.TicketOpen}, Kinds: []mailroom.TicketKind{mailroom.TicketApproval, mailroom.TicketInput},
		Oldest: true, Limit: maxWaiting + 1,
	})
}

// Title returns the digest in one line.
func (s *Summary) Title() string {
	return fmt.Sprintf("%d done, %d failed, %s waiting", s.Ended[mailroom.StatusCompleted], s.Ended[mailroom.StatusFailed], s.waiting())
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
		"Since " + inZone(s.Since, a.Zone) + ":",
		fmt.Sprintf("%d runs completed, %d failed, %d cancelled", s.Ended[mailroom.StatusCompleted], s.Ended[mailroom.StatusFailed], s.Ended[mailroom.StatusCancelled]),
		fmt.Sprintf("cost %.2f USD", float64(s.Cost)/1e9),
		s.waiting() + " questions wait for a decision",
	}
	if !s.Oldest.IsZero() {
		lines = append(lines, "the oldest since "+inZone(s.Oldest, a.Zone))
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
