package main

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/client"
	"mailroom/thread"
	"mailroom/worker"
)

const (
	treeChildren = 20
	treeBudget   = 4000 // tokens
	treeTurn     = 37   // tokens of a call of a model
)

// budgetWorker serves a tree of runs in a process of its own: a root that sends to children and waits for them, and
// children that call a model for as long as they may. Each call is a line of the file MODEL_CALLS, which is written
// before the server hears of the call.
func budgetWorker() {
	calls, err := os.OpenFile(os.Getenv("MODEL_CALLS"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		panic(err)
	}
	turns := func(ctx context.Context, s mailroom.Session) error {
		for range 200 {
			if err := ctx.Err(); err != nil {
				return context.Cause(ctx)
			}
			if _, err := calls.WriteString(s.Run().ID + "\n"); err != nil {
				return err
			}
			select { // the call takes its time, in which the worker may be killed
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
			}
			err := s.Append(ctx, mailroom.Step{Usage: mailroom.Usage{InputTokens: treeTurn - 7, OutputTokens: 7}})
			if err != nil {
				return err
			}
		}
		return nil
	}
	root := func(ctx context.Context, s mailroom.Session) error {
		var step mailroom.Step
		var waits []mailroom.Ask
		for i := range treeChildren {
			name := fmt.Sprint("child", i)
			step.Sends = append(step.Sends, mailroom.Send{Name: name, Agent: "leaf", Parts: mailroom.Text("work"),
				Answer: mailroom.AnswerWait})
			waits = append(waits, mailroom.Ask{Name: name})
		}
		if s.Run().Checkpoint == nil {
			step.Checkpoint = []byte(`{"sent":true}`)
			if err := s.Append(ctx, step); err != nil {
				return err
			}
		}
		if _, err := s.Wait(ctx, false, waits...); err != nil {
			return err
		}
		return turns(ctx, s)
	}
	err = worker.Serve(context.Background(), worker.Options{Slots: 4, Log: slog.New(slog.DiscardHandler)},
		map[string]mailroom.Agent{"root": mailroom.AgentFunc(root), "leaf": mailroom.AgentFunc(turns)})
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// TestATreeOfRunsKeepsItsBudgetThroughKills kills the workers of a tree of runs, and its server, again and again. What
// the tree has reported is at most the budget of its root and one call for each run, and each lost attempt has left at
// most one call unreported.
func TestATreeOfRunsKeepsItsBudgetThroughKills(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, 0))
	h := newFixture(t, "lease = \"1s\"\nrenew = \"200ms\"\nsweep = \"100ms\"\ndefault_agent = \"root\"\n"+
		"[agents.root]\nkind = \"remote\"\n[agents.leaf]\nkind = \"remote\"\n")
	server := &process{}
	h.process(server)
	at := strings.TrimPrefix(server.url, "http://")
	calls := filepath.Join(string(h.dir), "calls")
	h.must(os.WriteFile(calls, nil, 0o600))
	token, err := h.dir.Token()
	h.must(err)
	self, err := os.Executable()
	h.must(err)
	start := func() *process {
		cmd := &exec.Cmd{Path: self, Args: []string{"budgetworker"}}
		return h.startProcess(cmd, "MAILROOM_URL="+server.url, "MAILROOM_TOKEN="+token, "MODEL_CALLS="+calls)
	}
	sent, err := h.client().Submit(t.Context(), api.Submit{Agent: "root", Thread: "tree", Text: "go",
		Budget: &api.Budget{Tokens: treeBudget}})
	h.must(err)
	kills := 0
	for end := time.Now().Add(waitTimeout); ; {
		if time.Now().After(end) {
			t.Fatal("the tree does not end")
		}
		workers := []*process{start(), start()}
		h.until(t, 400+dice.IntN(900), func(c *client.Client) bool { return h.denyRaises(c) && isFinished(c, sent.Run) })
		for _, w := range workers {
			w.kill()
			kills++
		}
		if kills%6 == 0 {
			server.kill()
			h.process(server, "--listen", at)
		}
		if isFinished(h.client(), sent.Run) {
			break
		}
	}
	h.judgeTree(t, sent.Run, calls, kills)
}

// until looks at the server until it says that all is done, or the time in milliseconds is over.
func (h *fixture) until(t *testing.T, ms int, done func(c *client.Client) bool) {
	c := h.client()
	late := time.After(time.Duration(ms) * time.Millisecond)
	for !done(c) {
		select {
		case <-late:
			return
		case <-t.Context().Done():
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// denyRaises denies every raise that a run of the tree asks for.
func (h *fixture) denyRaises(c *client.Client) bool {
	page, err := c.Tickets(h.t.Context(), client.ListQuery{Q: "state:open", Limit: 100})
	if err != nil {
		return false
	}
	for _, k := range page.Items {
		if strings.HasPrefix(k.Name, thread.BudgetTicket) {
			_, err := c.Decide(h.t.Context(), k.ID, api.Decision{Decision: mailroom.VerdictDeny, Digest: k.Digest})
			if err != nil && mailroom.CodeOf(err) != mailroom.CodeConflict {
				return false
			}
		}
	}
	return true
}

func isFinished(c *client.Client, run string) bool {
	r, err := c.Run(context.Background(), run)
	return err == nil && r.Status.Finished()
}

// judgeTree adds up what the runs of the tree have used, and what they have called.
func (h *fixture) judgeTree(t *testing.T, root, calls string, kills int) {
	t.Helper()
	page, err := h.client().Runs(t.Context(), client.ListQuery{Q: "parent:" + root, Limit: 100})
	h.must(err)
	top, err := h.client().Run(t.Context(), root)
	h.must(err)
	runs := append(page.Items, top)
	if len(runs) != treeChildren+1 {
		t.Fatalf("the tree has %d runs", len(runs))
	}
	used, attempts := int64(0), 0
	for _, r := range runs {
		crashed := r.Error != nil && r.Error.Class == mailroom.ClassCrashed
		if r.Status != mailroom.StatusCompleted && !crashed {
			t.Errorf("run %s of %s is %s: %v", r.ID, r.Agent, r.Status, r.Error)
		}
		if r.Usage != nil {
			used += r.Usage.InputTokens + r.Usage.OutputTokens
		}
		if r.Budget == nil || r.Budget.Lent != (api.Amounts{}) {
			t.Errorf("run %s has the budget %+v", r.ID, r.Budget)
		}
		attempts += r.Attempt
	}
	if most := int64(treeBudget + treeTurn*len(runs)); used > most {
		t.Errorf("the tree has used %d tokens of %d, and at most %d with one call for each run", used, treeBudget, most)
	}
	if top.Budget.Spent.Tokens != used && top.Status == mailroom.StatusCompleted {
		t.Errorf("the root counts %d tokens of the tree, its runs have used %d", top.Budget.Spent.Tokens, used)
	}
	log, err := os.ReadFile(calls)
	h.must(err)
	called := int64(strings.Count(string(log), "\n")) * treeTurn
	if unreported := called - used; unreported < 0 || unreported > int64(treeTurn*attempts) {
		t.Errorf("%d tokens were called and %d reported, in %d attempts", called, used, attempts)
	}
	t.Logf("%d kills of workers, %d attempts: %d tokens reported of a budget of %d, %d tokens unreported", kills, attempts,
		used, treeBudget, called-used)
}
