package doctor

import (
	"fmt"
	"maps"
	"slices"

	"mailroom"
	"mailroom/auth"
	"mailroom/store"
	"mailroom/thread"
)

// use compares the usage of each token with the sums of the rows. It reads the rows of all threads in one view. It
// reads no log, because the rows were compared with their logs before.
func (w *scan) use(r store.Reader) error {
	tokens, err := r.Tokens()
	if err != nil {
		return err
	}
	sums, counted := map[string]auth.Use{}, map[string]metered{}
	for from := int64(0); ; {
		rows, err := r.Threads(store.ThreadQuery{From: from, Oldest: true, Limit: batch})
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			break
		}
		for _, t := range rows {
			from = t.Key
			sums[t.Owner] = sums[t.Owner].Plus(auth.Use{Threads: 1, Bytes: t.Bytes})
			for by, n := range t.Unread {
				sums[by] = sums[by].Plus(auth.Use{Notifications: n})
			}
			countLimits(counted, t)
		}
	}
	workers, err := r.Workers()
	if err != nil {
		return err
	}
	for _, row := range workers {
		if !row.Dead {
			sums[row.Owner] = sums[row.Owner].Plus(auth.Use{Workers: 1})
		}
	}
	for _, t := range tokens {
		if want := sums[t.Name]; t.Used != want {
			w.report.Add(Finding{Invariant: Use, Text: fmt.Sprintf("token %q has %s, its row says %s", t.Name, inWords(want),
				inWords(t.Used))})
		}
	}
	return limits(w, r, counted)
}

// metered is what a meter of a limit counts: the threads that have a place, those that wait for one, and those for
// which a start of a rate is kept.
type metered struct{ places, waits, paced int64 }

// countLimits adds a thread to what the meters of limits count.
func countLimits(counted map[string]metered, t *mailroom.Thread) {
	places, waits, paced := thread.Counted(t)
	for _, key := range places {
		of := counted[key]
		of.places++
		counted[key] = of
	}
	if of := counted[waits]; waits != "" {
		of.waits++
		counted[waits] = of
	}
	if of := counted[paced]; paced != "" {
		of.paced++
		counted[paced] = of
	}
}

// limits compares the meters of limits with the numbers of threads that they count. A thread counts while its run is
// claimed, or while a place of its key is kept for it.
func limits(w *scan, r store.Reader, counted map[string]metered) error {
	q := store.MeterQuery{Prefix: thread.MeterPrefix, Limit: batch}
	for {
		rows, err := r.Count(store.CountQuery{Meters: &q})
		if err != nil {
			return err
		}
		for _, m := range rows.Meters {
			q.After = m.Key
			limit(w, m.Key, metered{m.Count, m.Turns, m.Tokens}, counted[m.Key])
			delete(counted, m.Key)
		}
		if len(rows.Meters) < batch {
			break
		}
	}
	for _, key := range slices.Sorted(maps.Keys(counted)) {
		limit(w, key, metered{}, counted[key])
	}
	return nil
}

func limit(w *scan, key string, says, is metered) {
	switch {
	case says.places != is.places:
		w.report.Add(Finding{Invariant: Count, Text: fmt.Sprintf("%d running runs count for %q, its meter says %d",
			is.places, key, says.places)})
	case says.waits != is.waits:
		w.report.Add(Finding{Invariant: Count, Text: fmt.Sprintf("%d threads wait for a place of %q, its meter says %d",
			is.waits, key, says.waits)})
	case says.paced != is.paced:
		w.report.Add(Finding{Invariant: Count, Text: fmt.Sprintf("%d starts of %q are kept for threads, its meter says %d",
			is.paced, key, says.paced)})
	case is.waits > 0 && is.places == 0:
		w.report.Add(Finding{Invariant: Due, Text: fmt.Sprintf("%d threads wait for a place of %q, which no run has",
			is.waits, key)})
	}
}

func inWords(u auth.Use) string {
	return fmt.Sprintf("%d threads of %d bytes, %d unread notifications and %d workers", u.Threads, u.Bytes,
		u.Notifications, u.Workers)
}

// bytes compares the size of the log and the blobs with the size in the thread's row. It skips a log that was purged
// during the check.
func (p *checker) bytes() {
	want := p.log.Bytes
	for _, n := range p.t.BlobBytes {
		want += n
	}
	if p.log.First == p.t.FirstSeq && want != p.t.Bytes {
		p.bad(Use, "its log and its blobs have %d bytes, its row says %d", want, p.t.Bytes)
	}
}
