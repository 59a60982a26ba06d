package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"mailroom"
	"mailroom/app/datadir"
	"mailroom/internal/recovery"
	"mailroom/internal/reserved"
	"mailroom/ledger"
	"mailroom/project"
	"mailroom/store"
	"mailroom/store/postgres"
)

// janitor removes obsolete data. Once at the start it removes agent definitions to which no open run is pinned. Then
// it periodically removes expired unread notifications, old minutes and hours of the summary of ended runs, and
// entries and attachments that are older than the retention. The attachments are in the data folder of each server
// and, if servers share a store, in its database; the rest is in the store.
type janitor struct {
	ledger         *ledger.Ledger
	files          datadir.Files
	shared         *postgres.Files    // files in the database of a shared store; nil: no shared store
	oldDefinitions []store.Definition // definitions of agents that are not current
	retention      time.Duration      // how long entries are kept; 0: forever
	keepAudit      time.Duration      // how long the audit log is kept; 0: forever
	log            *slog.Logger
}

// janitorPageSize is how many rows are read at a time.
const janitorPageSize = 500

// cleanStore removes obsolete data from the store until ctx is done. It retries failed work at the next interval.
func (k *janitor) cleanStore(ctx context.Context) {
	k.try(ctx, "obsolete agent versions not removed; retrying at the next start",
		func() error { return k.dropUnusedDefinitions(ctx) })
	k.repeat(ctx, func() {
		k.try(ctx, "expired notifications not removed", func() error { return k.expireNotifications(ctx) })
		k.try(ctx, "old summaries of ended runs not removed", func() error {
			return k.ledger.DropOldSummaries(ctx, time.Now())
		})
		k.try(ctx, "old actions not purged from the audit log", func() error { return k.purgeAudit(ctx) })
		if k.retention == 0 {
			return
		}
		k.try(ctx, "old entries not purged", func() error { return k.purgeEntries(ctx) })
		if k.shared == nil {
			return
		}
		k.try(ctx, "old files not removed from the database", func() error { return k.removeFiles(ctx, k.shared) })
	})
}

// try does one job. If the job fails or panics, try logs it; the janitor and its other jobs go on.
func (k *janitor) try(ctx context.Context, failure string, job func() error) {
	if err := recovery.Call(k.log, "janitor", job); err != nil && ctx.Err() == nil {
		k.log.Warn(failure, "error", err)
	}
}

// cleanFiles removes attachments until ctx is done.
func (n *Node) cleanFiles(ctx context.Context) error {
	n.janitor.cleanFiles(ctx)
	return nil
}

// maintain is the job of the maintenance duty: it works until ctx is done.
func (n *Node) maintain(ctx context.Context) {
	var parts sync.WaitGroup
	parts.Go(func() {
		defer recovery.Log(n.log, "janitor") // the next start repeats the work of the janitor
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
		k.try(ctx, "old files not removed", func() error { return k.removeFiles(ctx, k.files) })
	})
}

// repeat calls work now, and then at the interval of the janitor until ctx is done.
func (k *janitor) repeat(ctx context.Context, work func()) {
	turn := time.NewTicker(k.interval())
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

// interval returns the time between two turns.
func (k *janitor) interval() time.Duration {
	every := time.Hour
	for _, keep := range []time.Duration{k.retention, k.keepAudit} {
		if keep > 0 {
			every = min(every, max(keep/10, time.Second))
		}
	}
	return every
}

// expireNotifications expires unread notifications in all projects. A project that fails does not keep the others
// from being cleaned.
func (k *janitor) expireNotifications(ctx context.Context) error {
	q := store.ThreadQuery{Prefix: project.Prefix, Limit: janitorPageSize}
	var failed []error
	for {
		var page []*mailroom.Thread
		err := k.ledger.View(ctx, func(r store.Reader) (err error) {
			page, err = r.Threads(q)
			return err
		})
		if err != nil {
			return errors.Join(append(failed, err)...)
		}
		for _, t := range page {
			q.After = t.ID
			if len(t.Unread) == 0 {
				continue
			}
			err := recovery.Call(k.log, "janitor", func() error {
				return k.ledger.Projects().ExpireNotifications(ctx, t.ID, project.LapseAfter)
			})
			if err == nil {
				continue
			}
			failed = append(failed, fmt.Errorf("thread %s: %w", t.ID, err))
			if endsJanitor(ctx, err) || len(failed) >= maxJanitorErrors {
				return errors.Join(failed...)
			}
		}
		if len(page) < janitorPageSize {
			return errors.Join(failed...)
		}
	}
}

// dropUnusedDefinitions removes the older agent definitions to which no open run is pinned.
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

// pinnedVersions returns the agent versions to which open runs are pinned.
func pinnedVersions(ctx context.Context, l *ledger.Ledger) (map[agentVersion]bool, error) {
	used := map[agentVersion]bool{}
	err := eachOpenRun(ctx, l, func(_ store.Reader, runs []*mailroom.Run) (func() error, error) {
		for _, r := range runs {
			used[agentVersion{r.Agent, r.AgentVersion}] = true
		}
		return nil, nil
	})
	return used, err
}

// purgeEntries purges the threads that are older than the retention, oldest first. The ledger runs purges at
// the lowest priority. A thread that cannot be purged does not keep the later ones.
func (k *janitor) purgeEntries(ctx context.Context) error {
	q := store.ThreadQuery{Oldest: true, Limit: janitorPageSize}
	var failed []error
	for {
		var page []*mailroom.Thread
		var before time.Time
		err := k.ledger.View(ctx, func(r store.Reader) (err error) {
			before = r.Now().Add(-k.retention)
			page, err = r.Threads(q)
			return err
		})
		if err != nil {
			return errors.Join(append(failed, err)...)
		}
		var threads []string
		for _, t := range page {
			q.From = t.Key
			if t.CreatedAt.After(before) { // all later threads were created later too
				page = nil
				break
			}
			if t.FirstSeq <= t.LastSeq && t.ID != reserved.AuditLog { // the log of the thread is not empty
				threads = append(threads, t.ID)
			}
		}
		if err := k.ledger.PurgeEach(ctx, threads, k.retention); err != nil {
			if failed = append(failed, err); endsJanitor(ctx, err) || len(failed) >= maxJanitorErrors {
				return errors.Join(failed...)
			}
		}
		if len(page) < janitorPageSize {
			return errors.Join(failed...)
		}
	}
}

// purgeAudit purges the audit log, which has a retention of its own.
func (k *janitor) purgeAudit(ctx context.Context) error {
	if k.keepAudit == 0 {
		return nil
	}
	return k.ledger.Purge(ctx, reserved.AuditLog, k.keepAudit)
}

// maxJanitorErrors is the number of failed pages after which the janitor waits for its next turn.
const maxJanitorErrors = 10

// endsJanitor reports whether a failure concerns the whole store, and not one row, so that this turn of the janitor
// ends.
func endsJanitor(ctx context.Context, err error) bool {
	return ctx.Err() != nil || mailroom.CodeOf(err) == mailroom.CodeUnavailable
}
