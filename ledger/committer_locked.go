package ledger

import (
	"errors"
	"slices"
	"time"

	"mailroom"
	"mailroom/store"
)

// Operations on threads that another server holds, perhaps because its process is paused, leave
// their batch, so that they delay no others. They are tried again every lockRetry, without waiting
// for the lock, and answered with CodeUnavailable after maxLockWait.
const (
	lockRetry   = 100 * time.Millisecond
	maxLockWait = 8 * time.Second
)

func isLocked(err error) bool {
	_, ok := errors.AsType[*store.LockedError](err)
	return ok
}

// postpone puts the operations on locked threads back at the front of the queue, and returns the
// others. A single operation is postponed also if it does not name the thread: a delivery or the end
// of a run led it there.
func (b *batch) postpone(err error) (rest []*op) {
	locked, _ := errors.AsType[*store.LockedError](err)
	now := time.Now()
	var later []*op
	for _, o := range b.waiting.ops {
		names := slices.ContainsFunc(o.threads, func(id string) bool { return slices.Contains(locked.Threads, id) })
		if !names && len(b.waiting.ops) > 1 {
			rest = append(rest, o)
			continue
		}
		if o.lockedSince.IsZero() {
			o.lockedSince = now
		}
		if now.Sub(o.lockedSince) >= maxLockWait {
			b.c.failAll([]*op{o}, mailroom.Errorf(mailroom.CodeUnavailable,
				"thread %q is locked by another server: repeat the operation", locked.Threads[0]))
			continue
		}
		o.retryAt = now.Add(lockRetry)
		later = append(later, o)
	}
	if len(later) == 0 {
		return rest
	}
	b.c.options.Log.Warn("threads locked by another server; their operations wait", "threads", len(locked.Threads),
		"operations", len(later))
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	for _, o := range later {
		o.inBatch = false
	}
	// A panic of the committer answers the operations in flight and those in the queue, each once.
	b.c.inFlight = slices.DeleteFunc(slices.Clone(b.c.inFlight), func(o *op) bool { return slices.Contains(later, o) })
	later = slices.DeleteFunc(later, func(o *op) bool { return o.abandoned }) // abandoned operations count as not done
	b.c.queue = append(later, b.c.queue...)
	return rest
}
