package main

import (
	"errors"
	"flag"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

var claims = flag.Int("claims", 5, "how often all agents claim the same issue at once")

func TestOfManyClaimsOfOneIssueOneWins(t *testing.T) {
	p := newPlace(t)
	const agents = 8
	id := strings.TrimSpace(p.must("ann", "q", "everybody wants it"))
	wins := map[string]int{}
	for round := range *claims {
		p.must("ann", "update", id, "--status", "open", "--assignee", "")
		winners, losers := p.claim(id, agents)
		if len(winners) != 1 {
			t.Fatalf("round %d: winners %v, want one", round, winners)
		}
		wins[winners[0]]++
		if got := p.lines()[id]["assignee"]; got != winners[0] {
			t.Errorf("round %d: %s won, but the assignee in the file is %v", round, winners[0], got)
		}
		if len(losers) != agents-1 {
			t.Errorf("round %d: %d lost, want %d", round, len(losers), agents-1)
		}
		for _, message := range losers {
			if !strings.Contains(message, "claimed by "+winners[0]) {
				t.Errorf("error of a loser: %q, want the holder %s", message, winners[0])
			}
		}
	}
	t.Logf("%d processes claimed %s concurrently, %d times: one winner each time, by agent %v", agents, id, *claims, wins)
}

// claim lets agents claim an issue concurrently. It returns the winners and the output of the
// others.
func (p *place) claim(id string, agents int) (winners, losers []string) {
	var mu sync.Mutex
	var group sync.WaitGroup
	for i := range agents {
		group.Go(func() {
			name := fmt.Sprint("agent-", i)
			out, stderr, err := p.runProcess(name, "update", id, "--claim", "--json")
			mu.Lock()
			defer mu.Unlock()
			switch exit, failed := errors.AsType[*exec.ExitError](err); {
			case err == nil:
				winners = append(winners, name)
			case failed && exit.ExitCode() == 1:
				losers = append(losers, out+stderr)
			default:
				p.t.Error(err)
			}
		})
	}
	group.Wait()
	return winners, losers
}
