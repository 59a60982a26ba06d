package ledger_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"mailroom"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/thread"
)

// server is one of several ledgers on a store. It has one worker at a time.
type server struct {
	*fixture
	node, worker string
}

// servers starts servers on one store, on which the agent codex is sticky.
func servers(t *testing.T, st store.Store, nodes ...string) (all []*server) {
	t.Helper()
	return serversWith(t, st, 0, nodes...)
}

func serversWith(t *testing.T, st store.Store, grace time.Duration, nodes ...string) (all []*server) {
	t.Helper()
	for _, node := range nodes {
		s := &server{fixture: open(t, st, ledger.Options{Sticky: isSticky, StickyGrace: grace}), node: node}
		s.join()
		all = append(all, s)
	}
	return all
}

// join registers a new worker, as a start of the server does.
func (s *server) join() {
	s.t.Helper()
	s.worker = ledger.NewID()
	must(s.Register(s.ctx, store.Worker{ID: s.worker, Node: s.node, Agents: []string{"codex"}}))(s.t)
}

// claims claims due runs of the agents and returns their threads.
func (s *server) claims(agents map[string]int) (threads []string, work []thread.ClaimedRun) {
	s.t.Helper()
	s.round++
	work = must(s.Claim(s.ctx, thread.ClaimRequest{Worker: s.worker, Round: s.round, Slots: 9, Agents: agents,
		LastAttempt: true, Node: s.node}))(s.t)
	for _, w := range work {
		threads = append(threads, w.Claim.Thread)
	}
	return threads, work
}

// wantTurn checks that the server claims runs of codex in these threads only, and lets each write the
// state of a session and end.
func (s *server) wantTurn(want ...string) {
	s.t.Helper()
	threads, work := s.claims(map[string]int{"codex": 9})
	wantEqual(s.t, "threads with a run at "+s.node, threads, want)
	for _, w := range work {
		a := thread.StepCommit{Claim: w.Claim, Number: w.Run.Step + 1, Node: s.node,
			Step: mailroom.Step{State: json.RawMessage(fmt.Sprintf(`{"of":%q}`, s.node))}}
		must(s.Append(s.ctx, a))(s.t)
		s.settle(complete(w.Claim, "ok"))
	}
}

func (s *server) send(thread string) {
	s.t.Helper()
	in := text(thread, "hello")
	in.Agent = "codex"
	s.submit(in)
}

// live renews the lease and sweeps every minute.
func (s *server) live(d time.Duration) {
	s.t.Helper()
	for ; d > 0; d -= time.Minute {
		<-time.After(min(d, time.Minute))
		s.renew(s.worker, s.round)
		s.sweepAs()
	}
}

func (s *server) sweepAs() {
	s.t.Helper()
	if err := s.Sweep(s.ctx, s.worker); err != nil {
		s.t.Fatal(err)
	}
}

func TestARunThatContinuesASessionStartsOnTheServerOfTheSession(t *testing.T) {
	all := servers(t, memory.New(), "north", "south")
	north, south := all[0], all[1]
	south.send("t")
	north.wantTurn("t")
	for range 3 {
		south.send("t")
		south.send("free")
		south.wantTurn("free")
		north.wantTurn("t")
		north.send("free")
		north.wantTurn()
		south.wantTurn("free")
	}

	far := &server{fixture: south.fixture} // a remote worker has no server
	far.join()
	south.send("t")
	far.wantTurn()

	north.send("new")
	threads, _ := north.claims(map[string]int{"codex": 1})
	wantEqual(t, "with a limit of one", len(threads), 1)
}

func TestARunLeavesAServerThatIsGoneForTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := servers(t, memory.New(), "north", "south")
		north, south := all[0], all[1]
		for _, id := range []string{"t", "idle"} {
			north.send(id)
		}
		north.wantTurn("t", "idle")
		south.live(time.Hour)
		north.join()
		north.deregister(north.worker)
		south.send("t")
		south.live(5*time.Minute - time.Microsecond)
		south.wantTurn()
		south.live(time.Microsecond)
		south.wantTurn("t")
		wantEqual(t, "server of the idle thread", south.thread("idle").Nodes, map[string]string{"codex": "north"})

		north.join()
		north.send("t")
		north.send("idle")
		north.live(time.Second)
		south.wantTurn("t")
		north.wantTurn("idle")
	})
}

// The rows of dead workers, which show how long a server has been gone, are kept for the grace.
func TestRowsOfDeadWorkersAreKeptForTheStickyGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := serversWith(t, memory.New(), 2*time.Hour, "north", "south")
		north, south := all[0], all[1]
		north.send("t")
		north.wantTurn("t")
		south.live(2 * time.Hour)
		north.join()
		north.deregister(north.worker)
		south.send("t")
		south.live(119 * time.Minute)
		south.wantTurn()
		south.live(time.Minute)
		south.wantTurn("t")
	})
}

func TestARunWaitsForAServerThatRestartsWithinTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := servers(t, memory.New(), "north", "south")
		north, south := all[0], all[1]
		north.send("t")
		north.wantTurn("t")
		south.live(time.Hour)
		north.join()
		for range 3 { // each time for almost the grace period
			north.deregister(north.worker)
			south.send("t")
			south.live(4 * time.Minute)
			south.wantTurn()
			north.join()
			south.sweepAs()
			north.wantTurn("t")
		}
	})
}

// The grace period does not include times when all servers are off, or when no server reaches the store.
func TestTheGraceCountsOnlyWhileAServerWatches(t *testing.T) {
	for _, c := range []struct {
		name  string
		pause func(t *testing.T, st store.Store, s *server) *server
	}{
		{"all servers were off", func(t *testing.T, st store.Store, s *server) *server {
			s.deregister(s.worker)
			<-time.After(time.Hour)
			return servers(t, st, "south")[0]
		}},
		{"the store was away", func(t *testing.T, st store.Store, s *server) *server {
			s.live(time.Hour)
			<-time.After(time.Hour)
			return s
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := memory.New()
				all := servers(t, st, "north", "south")
				north := all[0]
				north.send("t")
				north.wantTurn("t")
				north.deregister(north.worker)
				south := c.pause(t, st, all[1])
				south.send("t")
				south.renew(south.worker, south.round)
				south.sweepAs()
				south.live(4 * time.Minute)
				south.wantTurn()
				south.live(time.Minute)
				south.wantTurn("t")
			})
		})
	}
}

func TestARunLeavesItsServerIfTheAgentHasNoSessionsThere(t *testing.T) {
	st := memory.New()
	north := servers(t, st, "north")[0]
	north.send("t")
	north.wantTurn("t")
	changed := &server{fixture: open(t, st, ledger.Options{}), node: "north"}
	changed.join()
	changed.send("t")
	changed.wantTurn()
	changed.sweepAs()
	changed.wantTurn("t")
}

func TestARunOfASessionFailsIfNoWorkerServesItsAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := servers(t, memory.New(), "north", "south")
		north, south := all[0], all[1]
		north.send("t")
		north.wantTurn("t")
		north.deregister(north.worker)
		south.deregister(south.worker)
		south.send("t")
		orphans := func(wait time.Duration, configured ...string) string {
			<-time.After(wait)
			if err := south.FailOrphans(south.ctx, configured, time.Minute); err != nil {
				t.Fatal(err)
			}
			return south.kinds("t")
		}
		before := south.kinds("t")
		wantEqual(t, "log while the agent is configured", orphans(time.Hour, "codex"), before)
		wantEqual(t, "log without the agent", orphans(time.Hour), before+", run.failed")
	})
}
