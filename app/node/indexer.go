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

// indexer keeps the index of messages up to date. It reads the log after the commits, so commits do not wait for it,
// except while it writes a part of the index. While this server commits often, the indexer works about a tenth of the
// time.
type indexer struct {
	on      bool
	commits atomic.Int64 // counts the commits of this server, without the indexer's own
	log     *slog.Logger
}

const (
	// indexInterval is how often the indexer looks for new entries at the end of the log.
	indexInterval = time.Second
	// While there are at least busyCommits commits per second, the indexer works at most 1/indexShare of the time.
	indexShare  = 10
	busyCommits = 10
	// maxIndexPause bounds the pause after each part of the index that was written.
	maxIndexPause = 2 * time.Second
	// indexRetry is the pause after a failure.
	indexRetry = 10 * time.Second
)

// observe returns a function that counts commits and passes them on to next.
func (x *indexer) observe(next func(operations int, took time.Duration)) func(int, time.Duration) {
	return func(operations int, took time.Duration) {
		x.commits.Add(1)
		next(operations, took)
	}
}

// follow indexes the messages of a ledger until ctx is done.
func (x *indexer) follow(ctx context.Context, l *ledger.Ledger) {
	last, commits := time.Now(), x.commits.Load() // time and number of commits at the end of the part before
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
			x.log.Warn("messages not indexed; retrying; search does not find them until then", "error", err, "after", indexRetry)
			pause = indexRetry
		case err != nil || read == 0:
			pause = indexInterval
		case float64(commits-before) > busyCommits*since.Seconds()+1: // the + 1 allows one commit of the sweep
			pause = min((indexShare-1)*took, maxIndexPause)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}
