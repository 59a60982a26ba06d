package doctor

import (
	"fmt"

	"mailroom/auth"
	"mailroom/store"
)

// use compares the usage of each token with the sums of the rows. It reads the rows of all threads in one view. It
// reads no log, because the rows were compared with their logs before.
func (w *scan) use(r store.Reader) error {
	tokens, err := r.Tokens()
	if err != nil || len(tokens) == 0 {
		return err
	}
	sums := map[string]auth.Use{}
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
	return nil
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
