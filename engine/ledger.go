package engine

import (
	"context"
	"time"

	"mailroom"
	"mailroom/ledger"
)

// Ledger is what an engine works on: the ledger of its own process, or a
// server's from elsewhere. Its methods may be called concurrently. Unavailable
// means that the outcome is unknown, and the call is repeated as it was;
// LeaseLost, that the claim or the lease was taken away.
//
// archtest: a worker's lease and its runs, which one value serves; each half is small.
type Ledger interface {
	Leases
	Runs
}

// Leases are how a worker lives and gets work.
type Leases interface {
	// Register begins a lease for a worker with a new id.
	Register(ctx context.Context, w mailroom.Worker) (until time.Time, err error)
	// Renew extends it, and releases what the ledger has claimed for the
	// worker, in the named round or before, and the worker does not hold.
	Renew(ctx context.Context, in ledger.Renewal) (ledger.Renewed, error)
	// Deregister ends it.
	Deregister(ctx context.Context, worker string) error
	// Sweep frees what lost workers held, except self.
	Sweep(ctx context.Context, self string) error
	// FailOrphans fails what is due for agents that nobody has served for grace.
	FailOrphans(ctx context.Context, configured []string, grace time.Duration) error
	// Subscribe serves t until ctx ends; it must return only after the last Take.
	Subscribe(ctx context.Context, t ledger.Claimer) error
	// Wake has the takers asked again.
	Wake()
}

// Runs are what an attempt reads and writes. All writes are fenced by its claim.
type Runs interface {
	// Inputs returns the messages that each of the runs is for.
	Inputs(ctx context.Context, runs []*mailroom.Run) ([][]mailroom.Message, error)
	// ClaimedRun returns the run of a claim as it is now.
	ClaimedRun(ctx context.Context, c mailroom.Claim) (*mailroom.Run, error)
	// TranscriptBefore returns the last messages, at most limit, that were read before
	// the run's input.
	TranscriptBefore(ctx context.Context, run *mailroom.Run, limit int) ([]mailroom.Message, error)
	Tickets(ctx context.Context, q mailroom.TicketQuery) ([]*mailroom.Ticket, error)
	Effects(ctx context.Context, run *mailroom.Run) (map[string]*mailroom.EffectState, error)
	// ReadSteered marks the steered messages as read that no step covers, and
	// returns those behind the entry after, with the seq of the last of them.
	ReadSteered(ctx context.Context, c mailroom.Claim, after int64) ([]mailroom.Message, int64, error)
	Append(ctx context.Context, a mailroom.StepCommit) (seq int64, err error)
	Flush(ctx context.Context, c mailroom.Claim, p mailroom.Partial) error
	// SettleWith calls begun, unless it is nil, when nothing can keep the
	// settle from being tried, and before anything more is claimed.
	SettleWith(ctx context.Context, s mailroom.Settle, begun func()) (*mailroom.Run, error)
}

var _ Ledger = (*ledger.Ledger)(nil)
