package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"mailroom/client"
)

const tortureAgent = "torture"

// torture is one whole round on one data folder.
type torture struct {
	// Set once.
	plain, tagged string // the binaries
	dir           string // everything is in here
	cycles        int
	seed          uint64
	progress      func(format string, args ...any)
	plots         plots
	journal       *journal
	stop          context.CancelCauseFunc // ends everything at the first violation

	counts counts
	purges atomic.Bool // something may have been purged

	mu     sync.Mutex
	logs   map[string]*threadLog // owned by mu, by thread
	killed time.Time             // owned by mu: the last one
	found  []violation           // owned by mu

	// Owned by the goroutine of run.
	steady    map[string]*reader
	roving    []*reader
	judged    int              // operations were judged up to this number
	texts     map[string]int   // of messages that were submitted, to how often they are in a log
	told      map[string]int64 // per thread, up to which entry texts and submits were collected
	since     time.Time        // reads of the present chunk were called later
	runs      map[string]*threadLog
	sent      []sending             // not yet looked for
	ended     []ending              // not yet looked at
	delivers  int64                 // what the thread with a deliver_to says later is delivered
	keys      map[string]*operation // first answer, by thread and key
	histories map[string]*history
}

// plots are the threads that hands work on.
type plots struct {
	echo, torture, tour, hub []string
	delivers, delivered      string // one of echo, and where it delivers to
}

func newPlots() plots {
	name := func(kind string, n int) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprintf("%s-%d", kind, i))
		}
		return list
	}
	return plots{echo: name("echo", 10), torture: name("torture", 10), tour: name("tour", 2), hub: name("hub", 2), delivers: "echo-9", delivered: "out-0"}
}

func (p plots) all() []string {
	return append(append(append(append([]string{}, p.echo...), p.torture...), p.tour...), p.hub...)
}

// violation is something that must not be.
type violation struct {
	thread, what string
	cycle        int64
}

// violation notes one; the first one ends the round.
func (t *torture) violation(thread, format string, args ...any) {
	v := violation{thread: thread, what: fmt.Sprintf(format, args...), cycle: t.counts.cycles.Load()}
	t.mu.Lock()
	t.found = append(t.found, v)
	t.mu.Unlock()
	t.stop(fmt.Errorf("violation: %s", v.what))
}

func (t *torture) violations() []violation {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]violation(nil), t.found...)
}

func (t *torture) data() string        { return filepath.Join(t.dir, "data") }
func (t *torture) effectsFile() string { return filepath.Join(t.dir, "effects") }

// Configurations of a server.
const (
	usual     = "usual"
	forgetful = "forgetful" // entries are kept for two seconds only
	narrow    = "narrow"    // few runs at a time, so that another worker gets some
)

func (t *torture) config(name string) string { return filepath.Join(t.dir, name+".toml") }

func (t *torture) writeConfigs() error {
	const text = `lease = "1s"
renew = "200ms"
sweep = "100ms"
stop_grace = "250ms"
shutdown_grace = "1s"
log_level = "warn"

[limits]
submits = 0

[agents.echo]
kind = "echo"
pace = "1ms"

[agents.tour]
kind = "tour"
pace = "1ms"
`
	err := os.MkdirAll(t.data(), 0o700)
	for path, line := range map[string]string{
		t.config(usual): "", t.config(forgetful): "retention = \"2s\"\n", t.config(narrow): "runs = 16\n",
		filepath.Join(t.data(), "mailroom.toml"): "", // for the worker, which takes no flag
	} {
		if err == nil {
			err = os.WriteFile(path, []byte(line+text), 0o600)
		}
	}
	return err
}

func (t *torture) lastKill() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.killed
}

// kills notes that a process is killed or stopped now.
func (t *torture) kills() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.killed = time.Now()
}

func (t *torture) target(p *process) target {
	return target{url: p.url, token: p.token, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
}

func (t *torture) hand(at target, p plan, n int) *hand {
	pace := 6
	if p.beside() {
		pace = 80 // SQLite lets two processes write in no fair order: both must get their turn
	}
	return &hand{
		home: t, at: at, dice: rand.New(rand.NewPCG(p.seed, uint64(n))), cycle: int(t.counts.cycles.Load()),
		tagged: !p.plain(), purging: p.purge, long: p.long, slow: p.kind == frozen, pace: pace,
		client: client.New(at.url, at.token, client.WithHTTPClient(at.http), client.WithMaxAttempts(1), client.WithTimeout(patience),
			client.WithBackoff(10*time.Millisecond, 50*time.Millisecond)),
	}
}

// run does all cycles, lets everything come to rest, and checks it as a whole.
func (t *torture) run(ctx context.Context) error {
	if err := t.writeConfigs(); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	dice := rand.New(rand.NewPCG(t.seed, 0))
	if err := t.open(ctx); err != nil {
		return err
	}
	for i, p := range plans(t.cycles, dice) {
		t.counts.cycles.Add(1)
		begin := time.Now()
		if err := t.cycle(ctx, p); err != nil {
			return fmt.Errorf("cycle %d (%s): %w", i+1, p, err)
		}
		t.progress("cycle %3d  %-28s %5.1fs  %d operations\n", i+1, p, time.Since(begin).Seconds(), t.journal.next()-1)
	}
	return t.rest(ctx)
}
