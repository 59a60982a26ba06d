package doctor

import (
	"fmt"
	"time"

	"mailroom"
)

const (
	// viewCost bounds one view, in rows and entries read.
	viewCost = 4000
	// threadCost is what a thread costs beside its rows.
	threadCost = 8
	// batch is how many rows one query returns at most.
	batch = 200
)

// walk goes through the threads in the order of their keys, view by view.
type walk struct {
	report *Report
	from   int64    // key of the last thread that was taken up
	at     *patient // the thread in whose middle the last view ended, or nil
	done   bool

	// of the present view
	r       mailroom.Reader
	now     time.Time
	workers map[string]*mailroom.Worker
	swept   time.Time // since when a worker that lives looks after the others; zero: there is none
}

// view checks as much as one view is for.
func (w *walk) view(r mailroom.Reader) error {
	w.r = r
	if err := w.loadWorkers(); err != nil {
		return err
	}
	if err := w.goOn(); err != nil {
		return err
	}
	var rows []*mailroom.Thread // read and not yet taken up
	for left := viewCost; left > 0; {
		if w.at != nil {
			cost, err := w.step()
			if err != nil {
				return err
			}
			left -= cost
			continue
		}
		if len(rows) == 0 {
			var err error
			if rows, err = r.Threads(mailroom.ThreadQuery{From: w.from, Oldest: true, Limit: batch}); err != nil {
				return err
			}
			if len(rows) == 0 {
				w.done = true
				return nil
			}
		}
		w.from = rows[0].Key
		w.at = newPatient(w, rows[0])
		rows = rows[1:]
		w.report.Threads++
		left -= threadCost
	}
	return nil
}

// goOn takes the thread up where the last view left it, as it is now.
func (w *walk) goOn() error {
	if w.at == nil {
		return nil
	}
	rows, err := w.r.Threads(mailroom.ThreadQuery{IDs: []string{w.at.t.ID}})
	switch {
	case err != nil:
		return err
	case len(rows) == 0 || rows[0].Key != w.at.t.Key:
		w.at = nil // it was deleted meanwhile
	default:
		w.at.t = rows[0]
	}
	return nil
}

func (w *walk) step() (cost int, err error) {
	cost, err = w.at.step()
	if err != nil {
		return cost, fmt.Errorf("check thread %q: %w", w.at.t.ID, err)
	}
	if w.at.phase == phaseDone {
		w.at = nil
	}
	return cost, nil
}

// loadWorkers makes the first read of a view.
func (w *walk) loadWorkers() error {
	rows, err := w.r.Workers()
	w.now = time.Now().UTC() // a snapshot may be that of its first read, and nothing in it is later
	w.workers, w.swept, w.report.Workers = map[string]*mailroom.Worker{}, time.Time{}, len(rows)
	for _, row := range rows {
		w.workers[row.ID] = row
		if alive := !row.Dead && !w.now.After(row.LeaseUntil); alive && (w.swept.IsZero() || row.StartedAt.Before(w.swept)) {
			w.swept = row.StartedAt
		}
	}
	return err
}

// phase is how far the check of a thread has come.
type phase int

const (
	phaseLog     phase = iota // its entries up to the last one of the view
	phaseRuns                 // run by run
	phaseTickets              // ticket by ticket
	phaseStrays               // what the log names and no row was
	phaseWhole                // what concerns all of it
	phaseDone
)

// patient is one thread under examination. Its log is told to the end of each
// view before a row is compared, so what is compared is always of one view,
// although a long thread takes many.
type patient struct {
	*walk
	t     *mailroom.Thread // as the present view has it
	phase phase
	from  int64 // key of the last row of the phase
	story *story
}

func newPatient(w *walk, t *mailroom.Thread) *patient {
	p := &patient{walk: w, t: t}
	p.story = newStory(p)
	p.row()
	return p
}

// step does about a batch of the work that is left.
func (p *patient) step() (cost int, err error) {
	if p.story.after < p.t.LastSeq {
		return p.story.read()
	}
	switch p.phase {
	case phaseLog:
		p.phase = phaseRuns
		return 0, nil
	case phaseRuns:
		return p.runs()
	case phaseTickets:
		return p.tickets()
	case phaseStrays:
		return p.strays()
	}
	p.phase = phaseDone
	return threadCost, p.whole()
}

// next ends a phase when its last batch was not full.
func (p *patient) next(n int, then phase) (cost int, err error) {
	if n < batch {
		p.phase, p.from = then, 0
	}
	return n + 1, nil
}

func (p *patient) bad(what Invariant, format string, args ...any) {
	p.report.Add(Finding{Invariant: what, Thread: p.t.ID, Text: fmt.Sprintf(format, args...)})
}

func (p *patient) badRun(what Invariant, run, format string, args ...any) {
	p.report.Add(Finding{Invariant: what, Thread: p.t.ID, Run: run, Text: fmt.Sprintf(format, args...)})
}

func (p *patient) badTicket(what Invariant, run, ticket, format string, args ...any) {
	p.report.Add(Finding{Invariant: what, Thread: p.t.ID, Run: run, Ticket: ticket, Text: fmt.Sprintf(format, args...)})
}
