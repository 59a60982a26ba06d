package node

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/engine"
	"mailroom/internal/recovery"
	"mailroom/ledger"
	"mailroom/store"
)

// dutyInterval is how often a server asks for a duty that another one holds.
const dutyInterval = time.Second

// releaseTimeout bounds the release of a duty at shutdown. Without it the duty ends with the lease.
const releaseTimeout = 5 * time.Second

// duty is a job that only one of the servers on a store does at a time. The job begins when this server's worker
// takes the duty, and ends before the worker's lease ends.
type duty struct {
	name   string
	ledger *ledger.Ledger // its writes do not need the duty, see restricted
	shared bool           // several servers share the store, and may wait for the duty
	log    *slog.Logger

	worker atomic.Pointer[string] // id of the worker that took the duty last; nil: none yet
}

// restricted returns a ledger for the job, whose writes fail unless this server holds the duty.
func (d *duty) restricted() *ledger.Ledger {
	return d.ledger.OnDuty(d.name, func() string {
		if w := d.worker.Load(); w != nil {
			return *w
		}
		return ""
	})
}

// serve runs the job whenever this server holds the duty, until ctx is done. The job returns soon after its context
// is done. serve calls standby with the host of the other server while another server holds the duty.
func (d *duty) serve(
	ctx context.Context, e *engine.Engine, job func(context.Context), standby func(ctx context.Context, host string),
) {
	for ctx.Err() == nil {
		worker, lease, err := e.AwaitLease(ctx)
		if err != nil {
			return
		}
		holder, err := d.take(ctx, worker)
		switch {
		case err != nil:
			if ctx.Err() == nil && mailroom.CodeOf(err) != mailroom.CodeLeaseLost {
				d.log.Warn("duty could not be taken; trying again; another server may do its work", "duty", d.name, "error", err)
			}
		case holder.ID == worker:
			d.do(ctx, lease, worker, job)
			continue
		default:
			standby(ctx, holder.Host)
		}
		select {
		case <-time.After(dutyInterval):
		case <-ctx.Done():
		}
	}
}

// take takes the duty for the given worker unless another live worker holds it, and returns the holder. It first
// reads, and writes only if the duty is free.
func (d *duty) take(ctx context.Context, worker string) (holder *store.Worker, err error) {
	err = d.ledger.View(ctx, func(r store.Reader) error {
		all, err := r.Workers()
		holder = ledger.Holder(all, d.name)
		return err
	})
	if err != nil || holder != nil {
		return holder, err
	}
	return d.ledger.Duties().Take(ctx, worker, d.name)
}

// do runs the job until ctx is done or the lease ends.
func (d *duty) do(ctx, lease context.Context, worker string, job func(context.Context)) {
	d.worker.Store(&worker)
	life, end := context.WithCancel(ctx)
	defer end()
	defer context.AfterFunc(lease, func() {
		defer recovery.Log(d.log, "end of a duty")
		end()
	})()
	job(life)
	if lease.Err() != nil {
		if ctx.Err() == nil { // a server that stops gives its lease back, sooner or later than the job ends
			d.log.Warn("duty ended because the worker's lease ended; it is taken again with the next lease", "duty", d.name)
		}
		return
	}
	if !d.shared { // no other server waits for the duty, so replies in progress may finish under it
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if err := d.ledger.Duties().Release(ctx, worker, d.name); err != nil {
		d.log.Warn("duty not released; other servers wait until the lease ends", "duty", d.name, "error", err)
	}
}

// channelDuty makes the duty of a channel.
func (n *Node) channelDuty(channel string) *duty {
	d := n.newDuty("channel/" + channel)
	n.duties[channel] = d
	return d
}

func (n *Node) newDuty(name string) *duty {
	return &duty{name: name, ledger: n.ledger, shared: n.shared, log: n.log}
}

// serveMaintenance does the maintenance job whenever this server holds the maintenance duty.
func (n *Node) serveMaintenance(ctx context.Context) error {
	n.agents.programs.queryVersions(ctx)
	n.maintenance.serve(ctx, n.lanes[0], n.maintain, func(context.Context, string) {})
	return nil
}

// serveChannels runs each channel whenever this server holds the channel's duty.
func (n *Node) serveChannels(ctx context.Context) error {
	serve := func(ctx context.Context, c *channel.Runner) {
		n.duties[c.Name()].serve(ctx, n.lanes[0], c.Run, c.Standby)
	}
	return n.channels.run(ctx, serve, n.secretFiles, n.exitWhenDown)
}
