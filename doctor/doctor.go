// Package doctor checks the invariants of a store, live or stopped. It recomputes
// what can be derived from other rows, and the log of each thread is told again
// and compared with what the rows say. It changes nothing and repairs nothing:
// there is no code anywhere that could have written what it finds.
package doctor

import (
	"context"
	"fmt"

	"mailroom"
)

// Viewer is what Check reads: a store, or a ledger over one.
type Viewer interface {
	View(ctx context.Context, f func(mailroom.Reader) error) error
}

// Invariant is the short name of what a finding violates. Names stay as they are.
type Invariant string

const (
	Seq     Invariant = "seq"     // entries go from first_seq to last_seq, without a gap, and can be read
	Log     Invariant = "log"     // rows say what the log tells, and the log tells a possible story
	Order   Invariant = "order"   // runs start by priority and place; a place is given once
	Current Invariant = "current" // at most one run of a thread has started and not ended
	Claim   Invariant = "claim"   // what is claimed is held by a worker that lives
	Due     Invariant = "due"     // a thread is due when its runs say so
	Attempt Invariant = "attempt" // attempts only grow; failures and crashes end at their bounds
	Message Invariant = "message" // runs name the entries that have their messages
	Steer   Invariant = "steer"   // a steered message is read by its run, or becomes one
	Ticket  Invariant = "ticket"  // what is open is asked by a run that goes on; a decision fits and came in time
	Wait    Invariant = "wait"    // a parked run waits for something that can come
	Child   Invariant = "child"   // a child that is waited for and its ticket agree
	Send    Invariant = "send"    // what the log says was sent is there
	Key     Invariant = "key"     // a key is remembered, for the one submit that it was given
	Partial Invariant = "partial" // only a running run has flushed text, in pieces that abut
	Reserve Invariant = "reserve" // what is reserved was taken and has not ended, and nobody else holds it
	Owner   Invariant = "owner"   // a thread belongs to somebody: else nobody may see it
	Use     Invariant = "use"     // a thread and a token say how much they have
	Count   Invariant = "count"   // the store counts the threads and runs that there are
	Limit   Invariant = "limit"   // rows are within the limits of the system
	File    Invariant = "file"    // the database itself is sound; found by the store, not by Check
	Lost    Invariant = "lost"    // the database has every commit that was acknowledged; likewise
)

// Finding is one violation. Thread, Run and Ticket are ids, "" where it is not
// about one.
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

// MaxFindings is how many findings a report has at most: a store that is broken
// in one way can be broken so in every row.
const MaxFindings = 1000

// Report is what was found and what was looked at. Without findings all
// invariants hold.
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

// Sound reports whether nothing was found.
func (r *Report) Sound() bool { return len(r.Findings) == 0 }

// Add adds a finding.
func (r *Report) Add(f Finding) {
	if len(r.Findings) == MaxFindings {
		r.More++
		return
	}
	r.Findings = append(r.Findings, f)
}

// Check verifies the invariants of every thread. Others may write meanwhile: it
// reads views of about a page, but for the sums of what owners have and for the counts, and whatever it
// compares is of one view. A thread
// that is made after it began may be left out. An error means that the store
// could not be read; the report has what was found by then.
func Check(ctx context.Context, v Viewer) (Report, error) {
	w := &walk{report: &Report{Findings: []Finding{}}}
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
