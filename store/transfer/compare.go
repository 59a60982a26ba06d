package transfer

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash"
	"maps"

	"golang.org/x/sync/errgroup"

	"mailroom"
	"mailroom/internal/recovery"
	"mailroom/store"
	"mailroom/store/internal/format"
)

// DifferenceError is the first difference that Compare finds.
type DifferenceError struct {
	Thread string // "" if the rows belong to no thread
	What   string // kind of rows that differ
}

func (e *DifferenceError) Error() string {
	if e.Thread == "" {
		return e.What + " differ between the source and the copy"
	}
	return fmt.Sprintf("%s of thread %q differ between the source and the copy", e.What, e.Thread)
}

// comparePage is how many threads one view digests.
const comparePage = 64

// compareRows is how many runs or tickets of a thread one query returns. Without a limit in bytes, a
// shorter page is the last one, so that most threads need one query.
const compareRows = 50

// Compare compares two stores: counts, rows of no thread, and a digest for each thread. The keys of
// rows need not be equal, but their order. It calls report with the number of threads so far, and
// returns a [*DifferenceError] if the stores differ.
func Compare(ctx context.Context, source, copied Viewer, report func(threads int)) (threads int, err error) {
	if err := compareOthers(ctx, source, copied); err != nil {
		return 0, err
	}
	for _, deleted := range []bool{false, true} {
		q := store.ThreadQuery{Deleted: deleted, Oldest: true, Limit: comparePage, Bytes: batchBytes}
		sides := [2]side{{viewer: source, query: q}, {viewer: copied, query: q}}
		for {
			if err := both(ctx, func(ctx context.Context, i int) error { return sides[i].read(ctx) }); err != nil {
				return threads, err
			}
			n, err := comparePages(sides[0].page, sides[1].page)
			threads += n
			report(threads)
			if err != nil {
				return threads, err
			}
			if n == 0 {
				break
			}
		}
	}
	return threads, nil
}

// both runs f for the source and the copy at the same time.
func both(ctx context.Context, f func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for i := range 2 {
		group.Go(func() (err error) {
			defer recovery.Error(nil, "comparing stores", &err)
			return f(ctx, i)
		})
	}
	return group.Wait()
}

func comparePages(a, b []threadDigest) (threads int, err error) {
	for i := range max(len(a), len(b)) {
		switch {
		case i >= len(b):
			return i, &DifferenceError{a[i].id, "rows"}
		case i >= len(a), a[i].id != b[i].id:
			return i, &DifferenceError{b[i].id, "rows"}
		}
		for part, name := range partNames() {
			if a[i].parts[part] != b[i].parts[part] {
				return i, &DifferenceError{a[i].id, name}
			}
		}
	}
	return len(a), nil
}

// side is one of two stores that are compared.
type side struct {
	viewer Viewer
	query  store.ThreadQuery
	page   []threadDigest
}

// read digests the next threads.
func (s *side) read(ctx context.Context) error {
	s.page = s.page[:0]
	return s.viewer.View(ctx, func(r store.Reader) error {
		rows, err := r.Threads(s.query)
		for _, t := range rows {
			s.query.From = t.Key
			d, err := digest(r, t)
			if err != nil {
				return err
			}
			s.page = append(s.page, d)
		}
		return err
	})
}

// The parts of what belongs to a thread.
const (
	partThread = iota
	partLog
	partRuns
	partTickets
	partKeys
	partReservations
	partBlobs
	parts
)

func partNames() [parts]string {
	return [parts]string{"the fields", "the entries", "the runs", "the tickets", "the submit keys", "the reservations",
		"the blobs"}
}

type threadDigest struct {
	id    string
	parts [parts][sha256.Size]byte
}

// hasher hashes rows, each with its length.
type hasher struct{ hash.Hash }

func newHasher() hasher { return hasher{sha256.New()} }

func (h hasher) add(row []byte) {
	var size [8]byte
	binary.BigEndian.PutUint64(size[:], uint64(len(row)))
	h.Write(size[:]) // a hash returns no error
	h.Write(row)
}

// addBoth hashes a row twice: in the encoding of bodies and as JSON. Stores have columns for the fields of
// such rows, so a store may keep a field that one of the two encodings lacks.
func (h hasher) addBoth(body []byte, row any) error {
	text, err := json.Marshal(row)
	h.add(body)
	h.add(text)
	return err
}

func (h hasher) sum() (sum [sha256.Size]byte) {
	h.Sum(sum[:0])
	return sum
}

// digest returns the digest of a thread, which is the same for every store.
func digest(r store.Reader, t *mailroom.Thread) (threadDigest, error) {
	d := threadDigest{id: t.ID}
	h := newHasher()
	h.add(format.AppendThread(nil, t))
	d.parts[partThread] = h.sum()
	asked := false
	for part, read := range map[int]func(hasher) error{
		partLog:          func(h hasher) error { return addLog(h, r, t) },
		partRuns:         func(h hasher) (err error) { asked, err = addRuns(h, r, t.ID); return err },
		partKeys:         func(h hasher) error { return addKeys(h, r, t.ID) },
		partReservations: func(h hasher) error { return addReservations(h, r, t.ID) },
		partBlobs: func(h hasher) error {
			if !hasBlobs(t) {
				return nil
			}
			return addBlobs(h, r, t)
		},
	} {
		h := newHasher()
		if err := read(h); err != nil {
			return d, err
		}
		d.parts[part] = h.sum()
	}
	if !asked {
		return d, nil
	}
	h = newHasher()
	err := addTickets(h, r, t.ID)
	d.parts[partTickets] = h.sum()
	return d, err
}

func addLog(h hasher, r store.Reader, t *mailroom.Thread) error {
	q := store.EntryQuery{Thread: t.ID, Bytes: batchBytes}
	for t.LastSeq > 0 {
		list, err := r.Entries(q)
		if err != nil {
			return err
		}
		size := 0
		for _, e := range list {
			h.add(e.Raw)
			size, q.After = size+len(e.Raw), e.Seq
		}
		if size <= batchBytes {
			break
		}
	}
	return nil
}

// addRuns adds the runs with their partials. asked reports that runs have tickets.
func addRuns(h hasher, r store.Reader, thread string) (asked bool, err error) {
	q := store.RunQuery{Thread: thread, Oldest: true, Limit: compareRows}
	for more := true; more; {
		runs, err := r.Runs(q)
		if err != nil {
			return asked, err
		}
		more = len(runs) == q.Limit
		pieces, err := partials(r, runs)
		if err != nil {
			return asked, err
		}
		for _, run := range runs {
			q.From, asked = run.Key, asked || run.Asked > 0
			h.add(format.AppendRun(nil, run))
			for _, p := range pieces[run.ID] {
				if err := h.addBoth(nil, p); err != nil {
					return asked, err
				}
			}
		}
	}
	return asked, nil
}

// partials returns the flushed text of runs, by run.
func partials(r store.Reader, runs []*mailroom.Run) (map[string][]store.Partial, error) {
	if len(runs) == 0 {
		return nil, nil
	}
	var ids []string
	for _, run := range runs {
		ids = append(ids, run.ID)
	}
	rows, err := r.Partials(ids...)
	pieces := map[string][]store.Partial{}
	for _, p := range rows {
		pieces[p.Run] = append(pieces[p.Run], p)
	}
	return pieces, err
}

func addTickets(h hasher, r store.Reader, thread string) error {
	q := store.TicketQuery{Thread: thread, Oldest: true, Limit: compareRows}
	for more := true; more; {
		rows, err := r.Tickets(q)
		if err != nil {
			return err
		}
		more = len(rows) == q.Limit
		for _, k := range rows {
			q.From, k.Key = k.Key, 0
			if err := h.addBoth(format.AppendTicket(nil, k), k); err != nil {
				return err
			}
		}
	}
	return nil
}

func addKeys(h hasher, r store.Reader, thread string) error {
	q := store.KeyQuery{Thread: thread, All: true, Limit: batchRows}
	for {
		keys, err := r.Keys(q)
		if err != nil {
			return err
		}
		for i := range keys {
			k := &keys[i]
			q.After = k.Key
			for _, text := range []string{k.Key, k.Digest, format.EncodeSubmitted(&k.Result)} {
				h.add([]byte(text))
			}
			h.add(binary.BigEndian.AppendUint64(nil, uint64(k.JoinedSeq)))
		}
		if len(keys) < q.Limit {
			return nil
		}
	}
}

func addReservations(h hasher, r store.Reader, thread string) error {
	rows, err := reservations(r, thread)
	for i := range rows {
		if err := h.addBoth(format.AppendReservation(nil, &rows[i]), rows[i]); err != nil {
			return err
		}
	}
	return err
}

// compareOthers compares the counts, and the rows that belong to no thread.
func compareOthers(ctx context.Context, source, copied Viewer) error {
	viewers := [2]Viewer{source, copied}
	var counts [2]store.Counts
	var sums [2]map[string][sha256.Size]byte
	if err := both(ctx, func(ctx context.Context, i int) error {
		return viewers[i].View(ctx, func(r store.Reader) (err error) {
			if counts[i], err = r.Count(store.CountQuery{}); err != nil {
				return err
			}
			sums[i], err = digestOthers(r)
			return err
		})
	}); err != nil {
		return err
	}
	for what, sum := range sums[0] {
		if sum != sums[1][what] {
			return &DifferenceError{What: what}
		}
	}
	a, b := counts[0], counts[1]
	if a.Threads != b.Threads || !maps.Equal(a.Runs, b.Runs) || !a.Due.Equal(b.Due) {
		return &DifferenceError{What: fmt.Sprintf("the counts %s and %s", inWords(a), inWords(b))}
	}
	return nil
}

func inWords(c store.Counts) string {
	return fmt.Sprintf("(%d threads, runs %v, due at %v)", c.Threads, c.Runs, c.Due)
}

func digestMeters(r store.Reader) ([sha256.Size]byte, error) {
	h := newHasher()
	err := eachMeters(func(f func(store.Reader) error) error { return f(r) }, func(some []store.Meter) error {
		for _, m := range some {
			text, err := json.Marshal(m)
			if err != nil {
				return err
			}
			h.add(text)
		}
		return nil
	})
	return h.sum(), err
}

func digestOthers(r store.Reader) (map[string][sha256.Size]byte, error) {
	var rows others
	if err := rows.read(r); err != nil {
		return nil, err
	}
	definitions, pauses, tokens, workers, cursors := newHasher(), newHasher(), newHasher(), newHasher(), newHasher()
	for _, d := range rows.agents.Definitions {
		for _, text := range [][]byte{[]byte(d.Agent), []byte(d.Version), d.Body} {
			definitions.add(text)
		}
	}
	for _, p := range rows.agents.Pauses {
		for _, text := range []string{p.Agent, p.By, p.Reason} {
			pauses.add([]byte(text))
		}
		pauses.add(binary.BigEndian.AppendUint64(nil, uint64(p.At.UnixMicro())))
		if !p.Probe.IsZero() {
			pauses.add(binary.BigEndian.AppendUint64(nil, uint64(p.Probe.UnixMicro())))
		}
	}
	for _, t := range rows.tokens {
		t.Key = 0
		if err := tokens.addBoth(format.AppendToken(nil, t), t); err != nil {
			return nil, err
		}
	}
	for _, w := range rows.workers {
		w.Tables = 0 // of the program on a store that servers share; other stores do not keep it
		if err := workers.addBoth(format.AppendWorker(nil, w), w); err != nil {
			return nil, err
		}
	}
	summaries := newHasher()
	if err := eachSummaries(func(f func(store.Reader) error) error { return f(r) }, func(some []store.Summary) error {
		for _, s := range some {
			text, err := json.Marshal(s)
			if err != nil {
				return err
			}
			summaries.add(text)
		}
		return nil
	}); err != nil {
		return nil, err
	}
	meters, err := digestMeters(r)
	if err != nil {
		return nil, err
	}
	q := store.CursorQuery{Limit: cursorRows}
	for {
		list, err := r.Cursors(q)
		if err != nil {
			return nil, err
		}
		for _, c := range list {
			q.After = store.CursorRef{Channel: c.Channel, Identity: c.Identity}
			for _, text := range [][]byte{[]byte(c.Channel), []byte(c.Identity), c.Position} {
				cursors.add(text)
			}
			cursors.add(binary.BigEndian.AppendUint64(nil, uint64(c.MovedAt.UnixMicro())))
		}
		if len(list) < q.Limit {
			break
		}
	}
	return map[string][sha256.Size]byte{
		"the definitions of agents": definitions.sum(), "the pauses of agents": pauses.sum(),
		"the tokens": tokens.sum(), "the workers": workers.sum(), "the cursors": cursors.sum(),
		"the summary of ended runs": summaries.sum(), "the meters": meters,
	}, nil
}
