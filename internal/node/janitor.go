package node

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"mailroom"
	"mailroom/internal/datadir"
	"mailroom/internal/recovery"
	"mailroom/ledger"
	"mailroom/project"
	"mailroom/store"
	"mailroom/store/postgres"
)

// janitor removes obsolete data: once at the start, agent definitions that no open run is
// pinned to; then periodically, expired unread notifications, old minutes and hours of the summary of
// ended runs, and entries and attachments that are older than the retention. The attachments are in the data folder of each server and, if
// servers share a store, in its database; the rest is in the store.
type janitor struct {
	ledger         *ledger.Ledger
	files          datadir.Files
	shared         *postgres.Files    // nil: none
	oldDefinitions []store.Definition // not current
	retention      time.Duration      // 0: entries are kept forever
	log            *slog.Logger
}

// janitorPageSize is how many rows are read at a time.
const janitorPageSize = 500

// cleanStore works until ctx is done. It retries failed work at the next interval.
func (k *janitor) cleanStore(ctx context.Context) {
	if err := k.dropUnusedDefinitions(ctx); err != nil && ctx.Err() == nil {
		k.log.Warn("obsolete agent versions not removed; retrying at the next start", "error", err)
	}
	k.repeat(ctx, func() {
		if err := recovery.Call(k.log, "janitor", func() error { return k.expireNotifications(ctx) }); err != nil && ctx.Err() == nil {
			k.log.Warn("expired notifications not removed", "error", err)
		}
		if err := recovery.Call(k.log, "janitor", func() error { return k.ledger.DropOldSummaries(ctx, time.Now()) }); err != nil && ctx.Err() == nil {
			k.log.Warn("old summaries of ended runs not removed", "error", err)
		}
		if k.retention == 0 {
			return
		}
		if err := recovery.Call(k.log, "janitor", func() error { return k.purgeEntries(ctx) }); err != nil && ctx.Err() == nil {
			k.log.Warn("old entries not purged", "error", err)
		}
		if k.shared == nil {
			return
		}
		if _, err := k.shared.RemoveBefore(ctx, time.Now().Add(-k.retention)); err != nil && ctx.Err() == nil {
			k.log.Warn("old files not removed from the database", "error", err)
		}
	})
}

// maintain is the job of the maintenance duty: it works until ctx is done.
func (n *Node) maintain(ctx context.Context) {
	var parts sync.WaitGroup
	parts.Go(func() {
		defer recovery.Log(n.log, "janitor") // the next start repeats its work
		n.janitor.cleanStore(ctx)
	})
	parts.Go(func() {
		defer recovery.Log(n.log, "index of messages")
		n.indexer.follow(ctx, n.ledger)
	})
	if n.follower != nil {
		parts.Go(func() {
			defer recovery.Log(n.log, "alerts")
			n.follower.Follow(ctx)
		})
	}
	parts.Wait()
}

// cleanFiles removes attachments until ctx is done.
func (k *janitor) cleanFiles(ctx context.Context) {
	if k.retention == 0 {
		return
	}
	k.repeat(ctx, func() {
		if _, err := k.files.RemoveBefore(ctx, time.Now().Add(-k.retention)); err != nil && ctx.Err() == nil {
			k.log.Warn("old files not removed", "error", err)
		}
	})
}

// repeat calls work now and then at the interval of the janitor, until ctx is done.
func (k *janitor) repeat(ctx context.Context, work func()) {
	every := time.Hour
	if k.retention > 0 {
		every = min(max(k.retention/10, time.Second), every)
	}
	turn := time.NewTicker(every)
	defer turn.Stop()
	for {
		work()
		select {
		case <-turn.C:
		case <-ctx.Done():
			return
		}
	}
}

// expireNotifications expires unread notifications in all projects.
func (k *janitor) expireNotifications(ctx context.Context) error {
	q := store.ThreadQuery{Prefix: project.Prefix, Limit: janitorPageSize}
	for {
		var page []*mailroom.Thread
		err := k.ledger.View(ctx, func(r store.Reader) (err error) {
			page, err = r.Threads(q)
			return err
		})
		if err != nil {
			return err
		}
		for _, t := range page {
			q.After = t.ID
			if len(t.Unread) == 0 {
				continue
			}
			if err := k.ledger.Projects().ExpireNotifications(ctx, t.ID, project.LapseAfter); err != nil {
				return fmt.Errorf("thread %s: %w", t.ID, err)
			}
		}
		if len(page) < janitorPageSize {
			return nil
		}
	}
}

// dropUnusedDefinitions removes the older definitions that no open run is pinned to.
func (k *janitor) dropUnusedDefinitions(ctx context.Context) error {
	if len(k.oldDefinitions) == 0 {
		return nil
	}
	used, err := pinnedVersions(ctx, k.ledger)
	if err != nil {
		return fmt.Errorf("find the agent versions in use: %w", err)
	}
	unused := slices.DeleteFunc(slices.Clone(k.oldDefinitions), func(d store.Definition) bool {
		return used[agentVersion{d.Agent, d.Version}]
	})
	if len(unused) == 0 {
		return nil
	}
	return k.ledger.DropDefinitions(ctx, unused)
}

// agentVersion is one version of an agent.
type agentVersion struct{ agent, version string }

// pinnedVersions returns the agent versions that open runs are pinned to.
func pinnedVersions(ctx context.Context, l *ledger.Ledger) (map[agentVersion]bool, error) {
	used := map[agentVersion]bool{}
	q := store.RunQuery{
		Statuses: []mailroom.Status{mailroom.StatusQueued, mailroom.StatusRunning, mailroom.StatusWaiting}, Limit: janitorPageSize,
	}
	for {
		var page []*mailroom.Run
		err := l.View(ctx, func(r store.Reader) (err error) {
			page, err = r.Runs(q)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, r := range page {
			used[agentVersion{r.Agent, r.AgentVersion}] = true
			q.From = r.Key
		}
		if len(page) < janitorPageSize {
			return used, nil
		}
	}
}

// purgeEntries purges all threads, oldest first. The ledger runs purges at
// the lowest priority.
func (k *janitor) purgeEntries(ctx context.Context) error {
	q := store.ThreadQuery{Oldest: true, Limit: janitorPageSize}
	for {
		var page []*mailroom.Thread
		err := k.ledger.View(ctx, func(r store.Reader) (err error) {
			page, err = r.Threads(q)
			return err
		})
		if err != nil {
			return err
		}
		var threads []string
		for _, t := range page {
			q.From = t.Key
			if t.FirstSeq <= t.LastSeq { // its log is not empty
				threads = append(threads, t.ID)
			}
		}
		if err := k.ledger.PurgeEach(ctx, threads, k.retention); err != nil {
			return err
		}
		if len(page) < janitorPageSize {
			return nil
		}
	}
}
