package node

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"mailroom/internal/recovery"
)

// phases are the lives of the components that stop one after the other. The ledger is the last one.
type phases struct {
	server, engines, ledger context.Context

	stopServer, stopEngines, stopLedger context.CancelFunc

	duties  sync.WaitGroup // jobs of this server's duties, which need the lease of its engine
	working atomic.Int32   // the server and the engines, while they use the ledger
}

// newPhases returns phases that begin to end when ctx is done, which sets stopping. drain tells that
// the engines stop first, after so many jobs of duties have ended, and then the server.
func newPhases(ctx context.Context, drain bool, jobs int, stopping *atomic.Bool, log *slog.Logger) *phases {
	p := &phases{}
	p.duties.Add(jobs)
	life := context.WithoutCancel(ctx)
	p.server, p.stopServer = context.WithCancel(life)
	p.engines, p.stopEngines = context.WithCancel(life)
	p.ledger, p.stopLedger = context.WithCancel(life)
	p.working.Store(2)
	context.AfterFunc(ctx, func() {
		defer recovery.Log(log, "shutdown")
		stopping.Store(true)
		if !drain {
			p.stopServer()
			return
		}
		p.duties.Wait()
		p.stopEngines()
	})
	return p
}

// onEnd is called when the server or the engines have ended; stop stops the other one.
func (p *phases) onEnd(stop context.CancelFunc) {
	stop()
	if p.working.Add(-1) == 0 {
		p.stopLedger()
	}
}
