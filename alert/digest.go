package alert

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"mailroom"
	"mailroom/internal/display"
	"mailroom/store"
)

// Summary is the content of a digest: the runs that ended in a period, and the questions that are open now.
//
// The period of a digest begins and ends at full hours of UTC, because a digest adds up the hourly rows of the
// summary, which are kept for 100 days, while rows of minutes are kept for three days. So the periods follow each
// other without a gap or an overlap, also if a digest waits for its target for days.
type Summary struct {
	From     time.Time // a full hour of UTC
	Until    time.Time // exclusive
	Ended    map[mailroom.Status]int64
	Cost     int64 // cost of the ended runs, in billionths of a USD
	Waiting  int   // open questions, at most maxWaiting + 1
	Oldest   time.Time
	Failures []Failure // the groups with the most failures of the period, at most maxFailures
	Cut      bool      // the period may have more failed runs than Failures covers
	Counted  int       // number of failed runs that Failures covers, if Cut is set
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
	// countedFailures is how many of the newest failed runs are grouped, and countedBytes bounds their size.
	countedFailures = 1000
	countedBytes    = 4 << 20
)

// readSummary reads the summary of a period. Hours that are no longer kept are left out of the period.
func readSummary(r store.Reader, from, until, now time.Time) (*Summary, error) {
	s := &Summary{From: from.Truncate(time.Hour), Until: until, Ended: map[mailroom.Status]int64{}}
	if kept := now.Add(-store.KeepSummaries(store.StepHour)).Truncate(time.Hour).Add(time.Hour); s.From.Before(kept) {
		s.From = kept
	}
	all := ""
	counts, err := r.Count(store.CountQuery{Summaries: &store.SummaryQuery{Step: store.StepHour, From: s.From, To: s.Until,
		Agent: &all}})
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
		fmt.Sprintf("cost %.2f USD", float64(s.Cost)/1e9),
		"questions that wait for a decision now: " + s.waiting(),
	}
	if !s.Oldest.IsZero() {
		lines = append(lines, "the oldest since "+inZone(s.Oldest, a.Zone))
	}
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
