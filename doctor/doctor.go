// Package doctor checks the invariants of a store, live or stopped. It recomputes derived columns, and folds the log
// of each thread and compares the result with the rows. It never writes and repairs nothing, because no correct code
// path writes a state that it reports, so a repair could only guess the right state.
package doctor

import (
	"context"
	"fmt"

	"mailroom/doctor/fold"
	"mailroom/store"
)

// Viewer is the source that Check reads: a store, or a ledger over a store.
type Viewer interface {
	View(ctx context.Context, f func(store.Reader) error) error
}

// Invariant is the short, stable name of what a finding violates.
type Invariant string

const (
	// entries run from first_seq to last_seq without a gap and are readable
	Seq               = Invariant(fold.RuleSeq)
	Log               = Invariant(fold.RuleTransition) // rows agree with the log, and the log's transitions are possible
	Order             = Invariant(fold.RuleOrder)      // runs start by priority and place; places are unique
	Current           = Invariant(fold.RuleCurrent)    // at most one run of a thread has started and not ended
	Claim   Invariant = "claim"                        // a claim is held by a live worker
	Due     Invariant = "due"                          // a thread's due time follows from its runs
	Attempt           = Invariant(fold.RuleAttempt)    // attempts only grow; failures and crashes end at their bounds
	Message           = Invariant(fold.RuleMessage)    // runs name the entries of their messages
	Steer             = Invariant(fold.RuleSteer)      // a steered message is read by its run, or becomes a run
	// an open ticket belongs to an unfinished run; a decision fits its kind and came in time
	Ticket            = Invariant(fold.RuleTicket)
	Wait    Invariant = "wait"    // a parked run waits for an open ticket
	Child   Invariant = "child"   // a child that a run waits for and its ticket agree
	Send    Invariant = "send"    // a send in the log has its run
	Key     Invariant = "key"     // a submit key is remembered for the one submit that used it
	Blob    Invariant = "blob"    // a blob is whole, and the row of its thread counts it
	Partial Invariant = "partial" // only a running run has flushed text, in adjacent pieces
	// a reservation row is in the log as open, and no other holds the same names
	Reserve           = Invariant(fold.RuleReservation)
	Owner   Invariant = "owner" // a thread has an owner, without which no caller can see it
	Use     Invariant = "use"   // usage columns of threads and tokens match the rows
	Count   Invariant = "count" // the store's counts and error groups match its rows
	// what a run has lent is what the open runs that it sent have of it; the sums of a period have what its log says
	Budget Invariant = "budget"
	// a schedule that waits for its next time has a message to itself on its way
	Schedule Invariant = "schedule"
	Limit    Invariant = "limit" // rows are within the limits of the system
	File     Invariant = "file"  // the database file is intact; found by the store, not by Check
	Lost     Invariant = "lost"  // the database has every acknowledged commit; found by the store
)

// Finding is one violation. Thread, Run and Ticket are ids, or "" if the finding concerns none.
type Finding struct {
	Invariant Invariant `json:"invariant"`
	Thread    string    `json:"thread,omitempty"`
	Run       string    `json:"run,omitempty"`
	Ticket    string    `json:"ticket,omitempty"`
	Text      string    `json:"text"` // what is wrong, and what it should be
}

func (f Finding) String() string {
	if f.Thread == "" {
		return f.Text
	}
	return fmt.Sprintf("thread %q: %s", f.Thread, f.Text)
}

// MaxFindings bounds the findings of a report, because one defect can affect every row.
const MaxFindings = 1000

// Report has the findings and the numbers of rows checked. If it has no findings, all invariants hold.
type Report struct {
	Findings []Finding `json:"findings"`
	More     int       `json:"more,omitempty"` // findings beyond MaxFindings
	Threads  int       `json:"threads"`
	Runs     int       `json:"runs"`
	Entries  int       `json:"entries"`
	Tickets  int       `json:"tickets"`
	Keys     int       `json:"keys"` // submit keys of runs
	Partials int       `json:"partials"`
	Workers  int       `json:"workers"`
}

// Sound reports whether there are no findings.
func (r *Report) Sound() bool { return len(r.Findings) == 0 }

// Add adds a finding.
func (r *Report) Add(f Finding) {
	if len(r.Findings) == MaxFindings {
		r.More++
		return
	}
	r.Findings = append(r.Findings, f)
}

// Check verifies the invariants of every thread while others may write. It reads views of about a
// page, except for the sums per owner and the counts, and compares only what it read in one view.
// It may skip threads created after it began. An error means that the store could not be read; the
// report has the findings so far.
func Check(ctx context.Context, v Viewer) (Report, error) {
	w := &scan{report: &Report{Findings: []Finding{}}}
	for !w.done {
		if err := v.View(ctx, w.view); err != nil {
			return *w.report, err
		}
	}
	if err := v.View(ctx, w.use); err != nil {
		return *w.report, err
	}
	return *w.report, v.View(ctx, w.counts)
}
