package node

import (
	"context"
	"fmt"

	"mailroom/internal/recovery"
)

// endPrevious ends the leases of this server's previous process. That process has ended, because this one has the
// lock of the data folder.
func (n *Node) endPrevious(ctx context.Context, uncharged bool) error {
	if n.shared {
		return n.ledger.Workers().EndNodeWorkers(ctx, n.id, uncharged)
	}
	return n.ledger.Workers().EndLocalWorkers(ctx, uncharged)
}

// prepare ends the leases of the previous process. It stores the current agent versions before a run can be
// pinned to them, and where alerts begin before there is something to alert about.
func (n *Node) prepare(ctx context.Context) error {
	var report []byte
	if n.lock != nil {
		var err error
		if report, err = n.lock.CrashReport(); err != nil {
			return err
		}
	}
	uncharged := recovery.OutsideRun(report)
	if err := n.endPrevious(ctx, uncharged); err != nil {
		return fmt.Errorf("end the leases of the previous process: %w", err)
	}
	if n.lock != nil {
		if err := n.keepCrash(report, uncharged); err != nil {
			return err
		}
	}
	if err := n.ledger.KeepDefinitions(ctx, n.agents.present); err != nil {
		return fmt.Errorf("store the current agent versions: %w", err)
	}
	if err := n.warnOfOwners(ctx); err != nil {
		return fmt.Errorf("read the owners of the server's threads: %w", err)
	}
	if n.follower == nil {
		return nil
	}
	if err := n.follower.Begin(ctx, alertLedger{n.ledger}); err != nil {
		return fmt.Errorf("store where alerts begin: %w", err)
	}
	return nil
}
