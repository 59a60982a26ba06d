package server

import (
	"context"
	"time"

	"mailroom"
	"mailroom/internal/filter"
	"mailroom/store"
)

// runScan reads the runs that a filter matches and that the caller may see, from the narrowest index.
type runScan struct {
	filter filter.Filter
	query  store.RunQuery // see narrowest
	window window         // of the keys that can match
	oldest bool           // oldest first, otherwise the newest
}

// newRunScan returns the scan of a parsed filter.
func (h *runHandlers) newRunScan(ctx context.Context, f filter.Filter, conditions store.RunQuery, oldest bool) (runScan, error) {
	w, err := h.createdWindow(ctx, f)
	if err != nil {
		return runScan{}, err
	}
	q, err := narrowest(ctx, h.find, conditions)
	return runScan{f, q, w, oldest}, err
}

// scanned is where a scan ended.
type scanned struct {
	last int64 // key of the last row that was read
	end  bool  // no further row can match
	// lookedTo is when the last of the rows that the caller may see was created, nil without one.
	lookedTo *time.Time
}

// read calls visit for each match behind the key from, 0 for the first, and reads at most most rows,
// rounded up to a batch.
func (s runScan) read(ctx context.Context, find lookup, from int64, most int, visit func(r *mailroom.Run)) (out scanned, err error) {
	who := requestOf(ctx).who
	if from == 0 {
		from = s.window.start(s.oldest)
	}
	q := s.query
	q.From, q.Oldest, q.Limit, q.Bytes = from, s.oldest, scanPage, scanBytes
	for looked := 0; looked < most; {
		var rows []*mailroom.Run
		var visible map[string]*mailroom.Thread
		err := find.view(ctx, func(rd store.Reader) (err error) {
			if rows, err = rd.Runs(q); err != nil {
				return err
			}
			var threads []string
			for _, r := range rows {
				threads = append(threads, r.Thread)
			}
			visible, err = visibleThreads(rd, who, threads)
			return err
		})
		out.last, out.end = q.From, true
		if err != nil || len(rows) == 0 {
			return out, err
		}
		looked += len(rows)
		for _, r := range rows {
			if !s.window.contains(r.Key) {
				return out, nil
			}
			q.From = r.Key
			of := visible[r.Thread]
			if of == nil {
				continue
			}
			out.lookedTo = &r.CreatedAt
			if s.filter.Match(filterRow(r, of)) {
				visit(r)
			}
		}
		out.last, out.end = q.From, false
	}
	return out, nil
}
