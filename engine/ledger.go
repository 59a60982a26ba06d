package engine

import (
	"context"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/store"
	"mailroom/thread"
)

// Ledger is what an engine works on: the ledger of its own process, or of a remote server. Its
// methods may be called concurrently. [mailroom.CodeUnavailable] means that the outcome is unknown,
// and the engine repeats the same call; [mailroom.CodeLeaseLost] means that the claim or the lease
// was taken away.
//
// archtest: a worker's lease and its runs, which one value serves; each half is small.
type Ledger interface {
	Leases
	Runs
}

// Leases has the methods of a worker's lease and of claiming.
type Leases interface {
	// Register begins a lease for a worker with a new id.
	Register(ctx context.Context, w store.Worker) (until time.Time, err error)
	// Renew extends the lease. It also releases claims that the ledger made for the worker up to
	// the named round and that the worker does not hold.
	Renew(ctx context.Context, in thread.Renewal) (thread.Renewed, error)
	// Deregister ends the lease.
	Deregister(ctx context.Context, in thread.Leave) error
	// SweepFor frees the claims of lost workers, and fails due runs of agents that have no worker.
	SweepFor(ctx context.Context, in thread.Sweep) error
	// ServeClaims claims due runs for t until ctx ends. It returns after the last OnClaimed.
	ServeClaims(ctx context.Context, t thread.Claimer) error
	// AskClaimers makes the ledger ask its claimers for their next claim now.
	AskClaimers()
}

// Runs has the reads and writes of an attempt. Its claim fences all writes.
type Runs interface {
	// Inputs returns the input messages of each run.
	Inputs(ctx context.Context, runs []*mailroom.Run) ([][]mailroom.Message, error)
	// ClaimedRun returns the current state of the claimed run.
	ClaimedRun(ctx context.Context, c mailroom.Claim) (*mailroom.Run, error)
	// TranscriptBefore returns the last messages that were read before the run's input, at most limit.
	TranscriptBefore(ctx context.Context, run *mailroom.Run, limit int) ([]mailroom.Message, error)
	// LogOf returns the last entries of the run's thread that q selects and the run's agent may read, oldest first. A
	// page may be short: then next is above 0, and the entries before it are missing.
	LogOf(ctx context.Context, run *mailroom.Run, q mailroom.LogQuery) (page []mailroom.Entry, next int64, err error)
	Tickets(ctx context.Context, q store.TicketQuery) ([]*mailroom.Ticket, error)
	Effects(ctx context.Context, run *mailroom.Run) (map[string]*entry.EffectState, error)
	// ReadSteered marks the steered messages that no step covers as read. It returns those with a seq
	// above after, and the seq of the last one.
	ReadSteered(ctx context.Context, c mailroom.Claim, after int64) ([]mailroom.Message, int64, error)
	Append(ctx context.Context, a thread.StepCommit) (thread.Appended, error)
	Flush(ctx context.Context, c mailroom.Claim, p store.Partial) error
	// SettleWith settles the attempt. It calls begun, unless nil, once the settle is sure to be
	// tried, and before the next claim.
	SettleWith(ctx context.Context, s thread.Settle, begun func()) (*mailroom.Run, error)
}
