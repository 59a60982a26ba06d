package operate

import (
	"context"
	"time"

	"mailroom"
	"mailroom/server/internal/request"
	"mailroom/store"
)

// runScan reads the runs that a filter matches and that the caller may see, from the narrowest index.
type runScan struct {
	filter request.Filter
	source runSource
	window window // keys that matching runs can have
	oldest bool   // oldest first, otherwise the newest
}

// newRunScan returns the scan of a parsed filter.
func (h *ListHandlers) newRunScan(
	ctx context.Context, f request.Filter, conditions store.RunQuery, oldest bool,
) (runScan, error) {
	w, err := h.createdWindow(ctx, f)
	if err != nil {
		return runScan{}, err
	}
	source, err := h.runsFrom(ctx, conditions)
	return runScan{f, source, w, oldest}, err
}

// scanned is where a scan ended.
type scanned struct {
	last place // place of the last row that was read
	end  bool  // all rows that can match were read
	// lookedTo is when the last of the rows that the caller may see was created, nil without one.
	lookedTo *time.Time
}

// read calls visit for each match behind a place, and reads at most most rows, rounded up to a batch.
func (s runScan) read(
	ctx context.Context, find request.Lookup, at place, most int, visit func(r *mailroom.Run),
) (out scanned, err error) {
	for looked := 0; looked < most; {
		rows, visible, next, err := s.batch(ctx, find, at)
		looked += len(rows)
		ended := len(rows) == 0
		for _, r := range rows {
			if ended = !s.window.contains(r.Key); ended {
				break
			}
			at.key = r.Key
			of := visible[r.Thread]
			if of == nil {
				continue
			}
			out.lookedTo = &r.CreatedAt
			if s.filter.Match(filterRow(r, of)) {
				visit(r)
			}
		}
		if out.last, out.end = at, ended && next == ""; err != nil || out.end {
			return out, err
		}
		if ended {
			at = place{group: next}
			out.last, looked = at, looked+groupThreads
		}
	}
	return out, nil
}

// batch reads the next rows of a group, and those of their threads that the caller sees. next is the group behind it.
func (s runScan) batch(
	ctx context.Context, find request.Lookup, at place,
) (rows []*mailroom.Run, visible map[string]*mailroom.Thread, next string, err error) {
	who := request.CallerOf(ctx)
	from := at.key
	if from == 0 {
		from = s.window.start(s.oldest)
	}
	err = find.View(ctx, func(rd store.Reader) error {
		in := scope{all: true}
		if s.source.scoped {
			var err error
			if in, err = scopeOf(rd, who, at.group, groupThreads); err != nil {
				return err
			}
		}
		if rows, err = s.source.read(rd, in, from, s.oldest, scanPage); err != nil {
			return err
		}
		next = in.next
		var threads []string
		for _, r := range rows {
			threads = append(threads, r.Thread)
		}
		visible, err = request.VisibleThreads(rd, who, threads)
		return err
	})
	return rows, visible, next, err
}
