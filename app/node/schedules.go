package node

import (
	"context"
	"time"

	"mailroom/app/config"
	"mailroom/schedule"
	"mailroom/schedule/plan"
)

// applyRetry is when the schedules of the configuration are applied again after a failure.
const applyRetry = 10 * time.Second

// schedulesOf returns what the configuration says about schedules. shared says that other servers use the store.
func schedulesOf(c *config.Config, shared bool) schedule.File {
	f := schedule.File{Specs: map[string]plan.Spec{}, Changed: c.Changed(), Shared: shared, Silent: !c.HasSchedules()}
	for name, s := range c.Schedules {
		f.Specs[name] = s.Spec
	}
	return f
}

// applySchedules makes the schedules what the configuration says. Of several servers that start at the same time, one
// comes after the other, because each does so under a duty: the newest file is the last.
func (n *Node) applySchedules(ctx context.Context) error {
	if !n.shared {
		n.tryApply(ctx)
		return nil
	}
	ctx, done := context.WithCancel(ctx)
	defer done()
	job := func(ctx context.Context) {
		if n.tryApply(ctx) {
			done()
		}
	}
	n.newDuty("schedules").serve(ctx, n.lanes[0], job, func(context.Context, string) {})
	return nil
}

// tryApply applies the schedules of the configuration until it succeeds or ctx is done.
func (n *Node) tryApply(ctx context.Context) bool {
	for {
		err := n.schedules.Apply(ctx, n.ledger, n.operator, n.log)
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		n.log.Warn("schedules of the configuration not applied; trying again", "error", err, "next", applyRetry)
		select {
		case <-time.After(applyRetry):
		case <-ctx.Done():
			return false
		}
	}
}
