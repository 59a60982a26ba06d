package node

import (
	"context"
	"strings"
	"time"

	"mailroom"
	"mailroom/ledger"
	"mailroom/store"
)

// fileKeeper stores attachments.
type fileKeeper interface {
	Keep(ctx context.Context, stored []string, before time.Time) error
	RemoveBefore(ctx context.Context, before time.Time) (int, error)
}

// removeFiles removes the files that no entry refers to any more: Entries stay while their run is open, and for the
// retention after its end. So removeFiles first resets the age of the files that open runs read, and removes files
// only at an age that is one turn longer than the retention.
func (k *janitor) removeFiles(ctx context.Context, in fileKeeper) error {
	now := time.Now()
	err := eachOpenRun(ctx, k.ledger, func(r store.Reader, runs []*mailroom.Run) (func() error, error) {
		names, err := attachments(r, runs)
		if err != nil || len(names) == 0 {
			return nil, err
		}
		return func() error { return in.Keep(ctx, names, now.Add(-k.interval())) }, nil
	})
	if err != nil {
		return err // remove nothing: a file of an open run may be among the old ones
	}
	_, err = in.RemoveBefore(ctx, now.Add(-k.retention-k.interval()))
	return err
}

// eachOpenRun calls f with pages of the open runs, each with the snapshot it was read in. eachOpenRun calls the
// function that f returns after the snapshot has ended.
func eachOpenRun(
	ctx context.Context, l *ledger.Ledger, f func(r store.Reader, runs []*mailroom.Run) (func() error, error),
) error {
	q := store.RunQuery{
		Statuses: []mailroom.Status{mailroom.StatusQueued, mailroom.StatusRunning, mailroom.StatusWaiting},
		Limit:    janitorPageSize,
	}
	for {
		var page []*mailroom.Run
		then := func() error { return nil }
		err := l.View(ctx, func(r store.Reader) (err error) {
			if page, err = r.Runs(q); err != nil {
				return err
			}
			next, err := f(r, page)
			if next != nil {
				then = next
			}
			return err
		})
		if err == nil {
			err = then()
		}
		if err != nil || len(page) < janitorPageSize {
			return err
		}
		q.From = page[len(page)-1].Key
	}
}

// attachments returns the names of the stored files in the messages that runs have read or will read. It skips a run
// whose text is in its own row, because such a run has no file.
func attachments(r store.Reader, runs []*mailroom.Run) (names []string, err error) {
	var refs []store.EntryRef
	for _, run := range runs {
		if run.InputText != "" {
			continue
		}
		for _, in := range run.Inputs {
			refs = append(refs, store.EntryRef{Thread: run.Thread, Seq: in.Seq})
		}
		for _, s := range run.Steers {
			refs = append(refs, store.EntryRef{Thread: run.Thread, Seq: s.Seq})
		}
	}
	for len(refs) > 0 {
		some := refs[:min(len(refs), janitorPageSize)]
		refs = refs[len(some):]
		entries, err := r.Entries(store.EntryQuery{At: some})
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			var m mailroom.Message
			if err := e.Decode(&m); err != nil {
				return nil, err
			}
			for _, p := range m.Parts {
				if p.Type == "file" {
					names = append(names, p.URI[strings.LastIndexAny(p.URI, "/:")+1:])
				}
			}
		}
	}
	return names, nil
}
