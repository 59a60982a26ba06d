package node

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"mailroom"
	"mailroom/internal/recovery"
	"mailroom/ledger"
)

// indexer keeps the index of messages up to date. It reads the log behind the commits, so no commit waits
// for it, except while it writes a part. While this server commits often, it works about a tenth of the time.
type indexer struct {
	on      bool
	commits atomic.Int64 // of this server, without the indexer's
	log     *slog.Logger
}

const (
	// indexInterval is how often the end of the log is read.
	indexInterval = time.Second
	// indexShare is one over the share of the time that the indexer uses beside commits. busyCommits is how
	// many a second it takes notice of.
	indexShare  = 10
	busyCommits = 10
	// maxIndexPause bounds the pause behind a part.
	maxIndexPause = 2 * time.Second
	// indexRetry is the pause after a failure.
	indexRetry = 10 * time.Second
)

// observe counts the commits that are reported to next.
func (x *indexer) observe(next func(operations int, took time.Duration)) func(int, time.Duration) {
	return func(operations int, took time.Duration) {
		x.commits.Add(1)
		next(operations, took)
	}
}

// follow indexes the messages of a ledger until ctx is done.
func (x *indexer) follow(ctx context.Context, l *ledger.Ledger) {
	last, commits := time.Now(), x.commits.Load() // of the part before
	for x.on && ctx.Err() == nil {
		began := time.Now()
		read := 0
		err := recovery.Call(x.log, "index of messages", func() (err error) {
			read, err = l.IndexMessages(ctx)
			return err
		})
		took, since, before := time.Since(began), time.Since(last), commits
		last, commits = time.Now(), x.commits.Load()
		pause := time.Duration(0)
		switch {
		case err != nil && ctx.Err() == nil && mailroom.CodeOf(err) != mailroom.CodeConflict:
			x.log.Warn("messages not indexed; retrying", "error", err, "after", indexRetry)
			pause = indexRetry
		case err != nil || read == 0:
			pause = indexInterval
		case float64(commits-before) > busyCommits*since.Seconds()+1: // one may be of the sweep
			pause = min((indexShare-1)*took, maxIndexPause)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}
