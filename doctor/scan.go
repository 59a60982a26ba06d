package doctor

import (
	"fmt"
	"time"

	"mailroom"
	"mailroom/doctor/fold"
	"mailroom/store"
)

const (
	// viewCost bounds one view, in rows and entries read.
	viewCost = 4000
	// threadCost is the cost of a thread without its rows.
	threadCost = 8
	// batch bounds the rows that one query returns.
	batch = 200
)

// scan visits the threads in the order of their keys, view by view.
type scan struct {
	report *Report
	from   int64    // key of the last thread that was started
	at     *checker // the thread that the last view did not finish, or nil
	done   bool

	// Set for the current view.
	r       store.Reader
	now     time.Time
	workers map[string]*store.Worker
	swept   time.Time // since when a live worker has swept; zero: no worker
}

// view checks up to viewCost in one view.
func (w *scan) view(r store.Reader) error {
	w.r = r
	if err := w.loadWorkers(); err != nil {
		return err
	}
	if err := w.resume(); err != nil {
		return err
	}
	var rows []*mailroom.Thread // read and not started
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
			if rows, err = r.Threads(store.ThreadQuery{From: w.from, Oldest: true, Limit: batch}); err != nil {
				return err
			}
			if len(rows) == 0 {
				w.done = true
				return nil
			}
		}
		w.from = rows[0].Key
		w.at = newChecker(w, rows[0])
		rows = rows[1:]
		w.report.Threads++
		left -= threadCost
	}
	return nil
}

// resume reloads the thread that the last view did not finish.
func (w *scan) resume() error {
	if w.at == nil {
		return nil
	}
	rows, err := w.r.Threads(store.ThreadQuery{IDs: []string{w.at.t.ID}})
	switch {
	case err != nil:
		return err
	case len(rows) == 0 || rows[0].Key != w.at.t.Key:
		w.at = nil // the thread was deleted since the last view
	default:
		w.at.t = rows[0]
	}
	return nil
}

func (w *scan) step() (cost int, err error) {
	cost, err = w.at.step()
	if err != nil {
		return cost, fmt.Errorf("check thread %q: %w", w.at.t.ID, err)
	}
	if w.at.phase == phaseDone {
		w.at = nil
	}
	return cost, nil
}

// loadWorkers is the first read of a view.
func (w *scan) loadWorkers() error {
	rows, err := w.r.Workers()
	w.now = time.Now().UTC() // a snapshot may begin with its first read, so no row in it is later
	w.workers, w.swept, w.report.Workers = map[string]*store.Worker{}, time.Time{}, len(rows)
	for _, row := range rows {
		w.workers[row.ID] = row
		if alive := !row.Dead && !w.now.After(row.LeaseUntil); alive && (w.swept.IsZero() || row.StartedAt.Before(w.swept)) {
			w.swept = row.StartedAt
		}
	}
	return err
}

// phase is the progress of the check of a thread.
type phase int

const (
	phaseLog     phase = iota // reads the entries up to the last one of the view
	phaseRuns                 // page by page
	phaseTickets              // page by page
	phaseOrphans              // checks what the log names without a row so far
	phaseWhole                // checks the rules of the whole thread
	phaseDone
)

// checker checks one thread. Each view first folds the new entries of the log and then compares
// rows, so that it compares only data of one view although a long thread takes many.
type checker struct {
	*scan
	t      *mailroom.Thread // row of the thread in the current view
	phase  phase
	from   int64 // key of the last row of the phase
	log    *fold.Log
	places map[int64]string // run ids by place
}

func newChecker(w *scan, t *mailroom.Thread) *checker {
	p := &checker{scan: w, t: t, log: fold.New(t.ID, t.FirstSeq), places: map[int64]string{}}
	p.row()
	return p
}

// step checks about one batch of rows of the thread, in the current phase.
func (p *checker) step() (cost int, err error) {
	if p.log.Last < p.t.LastSeq {
		return p.readLog()
	}
	switch p.phase {
	case phaseLog:
		p.phase = phaseRuns
		return 0, nil
	case phaseRuns:
		return p.runs()
	case phaseTickets:
		return p.tickets()
	case phaseOrphans:
		return p.orphans()
	}
	p.phase = phaseDone
	return threadCost, p.whole()
}

// next moves on to the phase then if the last batch was not full. n is the number of rows in that batch.
func (p *checker) next(n int, then phase) (cost int, err error) {
	if n < batch {
		p.phase, p.from = then, 0
	}
	return n + 1, nil
}

func (p *checker) bad(what Invariant, format string, args ...any) {
	p.report.Add(Finding{Invariant: what, Thread: p.t.ID, Text: fmt.Sprintf(format, args...)})
}

func (p *checker) badRun(what Invariant, run, format string, args ...any) {
	p.report.Add(Finding{Invariant: what, Thread: p.t.ID, Run: run, Text: fmt.Sprintf(format, args...)})
}

func (p *checker) badTicket(what Invariant, run, ticket, format string, args ...any) {
	p.report.Add(Finding{Invariant: what, Thread: p.t.ID, Run: run, Ticket: ticket, Text: fmt.Sprintf(format, args...)})
}
