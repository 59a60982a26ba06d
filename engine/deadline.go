package engine

import (
	"log/slog"
	"sync"
	"time"

	"mailroom/internal/recovery"
)

// deadline is the end of the time of one attempt. Steps move it, so it is no deadline of a context: a context that is
// derived from such a one takes over what the deadline was then, and drops a later one of its own.
type deadline struct {
	begin time.Time
	timer *time.Timer // calls the function of newDeadline

	mu  sync.Mutex
	end time.Time // guarded by mu
}

// newDeadline begins an attempt that may take limit. It calls pass at the end.
func newDeadline(limit time.Duration, log *slog.Logger, pass func()) *deadline {
	now := time.Now()
	return &deadline{begin: now, end: now.Add(limit), timer: time.AfterFunc(limit, func() {
		defer recovery.Log(log, "the deadline of an attempt")
		pass()
	})}
}

func (d *deadline) stop() { d.timer.Stop() }

// at returns the end.
func (d *deadline) at() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.end
}

// extend moves the end to by from now, unless that is earlier or the end has passed.
func (d *deadline) extend(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if end := time.Now().Add(by); end.After(d.end) && d.timer.Stop() {
		d.end = end
		d.timer.Reset(by)
	}
}
