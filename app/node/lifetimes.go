package node

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"mailroom/internal/recovery"
)

// part is one of the jobs that a server does at the same time.
type part struct {
	name    string // names the part in the log of a panic
	begins  beginning
	lives   lifetime
	panics  consequence
	run     func(context.Context) error
	instead func() error // called instead of run if the server stops before it is prepared; nil: nothing is
}

// beginning says when a part begins.
type beginning int

const (
	atOnce   beginning = iota
	prepared           // when the store is prepared, see [Node.prepare]
)

// consequence says what a panic of a part does.
type consequence int

const (
	stopsServer consequence = iota
	isLogged                // the next start repeats the part's work
)

// lifetime says when a part ends.
type lifetime int

const (
	lifeOfNode    lifetime = iota // until the server must stop, or another part fails
	lifeOfDuties                  // as lifeOfNode; uses duties of this server, which need the lease of its engine
	lifeOfServer                  // until the HTTP server must stop, see phases; then it accepts no requests
	lifeOfEngines                 // until the engines must stop, see phases; then they settle or release their runs
	lifeOfLedger                  // until the server and the engines have ended; it commits the remaining operations
)

// phases end the lifetimes of the parts one after the other. If no other node uses the store, the HTTP server ends
// first, then the engines. If other nodes use it, the duties end first, then the engines. Until the runs of the
// engines have ended, the HTTP server answers, and reports that it is not ready; other nodes run what it accepts.
type phases struct {
	node, server, engines, ledger context.Context

	stopServer, stopEngines, stopLedger context.CancelFunc

	duties  sync.WaitGroup // parts with lifeOfDuties
	working atomic.Int32   // the server and the engines, while they use the ledger
}

// newPhases returns the phases of a node with the parts in all. The end of ctx sets stopping and begins the shutdown.
// If shared is true, other nodes use the same store, and the engines stop after the duties. Otherwise the HTTP server
// stops at once.
func newPhases(ctx context.Context, shared bool, all []part, stopping *atomic.Bool, log *slog.Logger) *phases {
	p := &phases{node: ctx}
	for _, one := range all {
		switch one.lives {
		case lifeOfDuties:
			p.duties.Add(1)
		case lifeOfServer, lifeOfEngines:
			p.working.Add(1)
		}
	}
	life := context.WithoutCancel(ctx)
	p.server, p.stopServer = context.WithCancel(life)
	p.engines, p.stopEngines = context.WithCancel(life)
	p.ledger, p.stopLedger = context.WithCancel(life)
	context.AfterFunc(ctx, func() {
		defer recovery.Log(log, "shutdown")
		stopping.Store(true)
		if !shared {
			p.stopServer()
			return
		}
		p.duties.Wait()
		p.stopEngines()
	})
	return p
}

// context returns the context of the parts that have this lifetime.
func (p *phases) context(of lifetime) context.Context {
	return map[lifetime]context.Context{
		lifeOfNode: p.node, lifeOfDuties: p.node, lifeOfServer: p.server, lifeOfEngines: p.engines, lifeOfLedger: p.ledger,
	}[of]
}

// ended is called when a part has ended. The end of the server stops the engines, and the end of the engines
// stops the server. When both have ended, the ledger stops.
func (p *phases) ended(of lifetime) {
	switch of {
	case lifeOfDuties:
		p.duties.Done()
	case lifeOfServer:
		p.stopEngines()
	case lifeOfEngines:
		p.stopServer()
	}
	if (of == lifeOfServer || of == lifeOfEngines) && p.working.Add(-1) == 0 {
		p.stopLedger()
	}
}
