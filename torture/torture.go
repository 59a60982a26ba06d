package main

import (
	"cmp"
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

// torture is one round on one data folder.
type torture struct {
	// Set once.
	plain, tagged string // the binaries
	old           string // tagged binary of another version, for some of the servers on a database; "": none
	dir           string // contains all files
	cycles        int
	nodes         int           // servers on one database; 1: a server with its own store
	lease         time.Duration // lease time of the server's workers; zero: one second
	seed          uint64
	progress      func(format string, args ...any)
	threads       threadNames
	journal       *journal
	stop          context.CancelCauseFunc // called at the first violation

	counts counts
	faults faultTimes
	purges atomic.Bool // something may have been purged

	mu    sync.Mutex
	logs  map[string]*threadLog // owned by mu, by thread
	found []violation           // owned by mu

	// Owned by the goroutine that calls run.
	steady    map[string]*reader
	roving    []*reader
	judged    int              // operations were judged up to this number
	texts     map[string]int   // submitted texts, with their number of occurrences in logs
	collected map[string]int64 // per thread, the entry up to which texts and submits were collected
	since     time.Time        // reads of the current chunk were called after this time
	runs      map[string]*threadLog
	sent      []sending             // sent messages that are not checked yet
	ended     []ending              // ended runs that are not checked yet
	delivers  int64                 // seq behind which messages of the thread with a deliver_to are delivered
	keys      map[string]*operation // first answer, by thread and key
	histories map[string]*history
	outages   []outage // outages of servers that share a database
}

// threadNames are the threads that users work on.
type threadNames struct {
	echo, torture, tour, hub []string
	delivers, delivered      string // a thread of echo, and the thread that gets its deliveries
}

func newThreadNames() threadNames {
	name := func(kind string, n int) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprintf("%s-%d", kind, i))
		}
		return list
	}
	return threadNames{echo: name("echo", 10), torture: name("torture", 10), tour: name("tour", 2), hub: name("hub", 2),
		delivers: "echo-9", delivered: "out-0"}
}

func (p threadNames) all() []string {
	return append(append(append(append([]string{}, p.echo...), p.torture...), p.tour...), p.hub...)
}

// violation is a promise of the server that a check found broken.
type violation struct {
	thread, what string
	cycle        int64
}

// violation records a broken promise. The first one ends the round.
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

func (t *torture) data() string        { return t.dataOf(0) }
func (t *torture) effectsFile() string { return filepath.Join(t.dir, "effects") }

// dataOf returns the data folder of a server.
func (t *torture) dataOf(server int) string {
	if server == 0 {
		return filepath.Join(t.dir, "data")
	}
	return filepath.Join(t.dir, fmt.Sprintf("data-%d", server))
}

// Configurations of a server.
const (
	usual     = "usual"
	forgetful = "forgetful" // entries are kept for only two seconds
	narrow    = "narrow"    // few concurrent runs, so that another worker gets some
)

func (t *torture) config(name string) string { return filepath.Join(t.dir, name+".toml") }

// sweep returns how often a server looks for ended leases.
func sweep(lease time.Duration) time.Duration { return lease / 10 }

// configText returns a configuration with the given lease; more is appended to it.
func configText(lease time.Duration, more string) string {
	const text = `stop_grace = "250ms"
shutdown_grace = "1s"
log_level = "warn"

[limits]
submits = 0

[retry]
first = "250ms"

[agents.echo]
kind = "echo"
pace = "1ms"

[agents.tour]
kind = "tour"
pace = "1ms"
`
	return fmt.Sprintf("lease = %q\nrenew = %q\nsweep = %q\n", lease, lease/5, sweep(lease)) + text + more
}

// writeConfigs writes the configurations of a server with its own store.
func (t *torture) writeConfigs() error {
	err := os.MkdirAll(t.data(), 0o700)
	for path, line := range map[string]string{
		t.config(usual): "", t.config(forgetful): "retention = \"2s\"\n", t.config(narrow): "runs = 16\n",
		filepath.Join(t.data(), "mailroom.toml"): "", // the default path, because the worker has no flag for it
	} {
		if err == nil {
			err = os.WriteFile(path, []byte(line+configText(time.Second, "")), 0o600)
		}
	}
	return err
}

func (t *torture) target(p *process) target {
	return target{url: p.url, token: p.token, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
}

func (t *torture) newUser(at target, p plan, n int) *user {
	pace := cmp.Or(p.pace, 6)
	if p.beside() {
		pace = 80 // SQLite's write lock is not fair between processes: pauses let both write
	}
	return &user{
		torture: t, at: at, dice: rand.New(rand.NewPCG(p.seed, uint64(n))), cycle: int(t.counts.cycles.Load()),
		tagged: !p.plain(), purging: p.purge, long: p.long, slow: p.kind == frozen || p.kind == frozenNode, pace: pace,
		client: client.New(at.url, at.token, client.WithHTTPClient(at.http), client.WithMaxAttempts(1),
			client.WithTimeout(waitTimeout),
			client.WithBackoff(10*time.Millisecond, 50*time.Millisecond)),
	}
}

// run runs all cycles, lets all runs end, and checks the result.
func (t *torture) run(ctx context.Context) error {
	if err := t.writeConfigs(); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	dice := rand.New(rand.NewPCG(t.seed, 0))
	first, err := t.startServer(ctx, t.data(), t.tagged, t.config(usual), "")
	if err != nil {
		return err
	}
	err = t.openThreads(ctx, first)
	first.kill()
	if err != nil {
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
	last, err := t.startServer(ctx, t.data(), t.tagged, t.config(usual), "")
	if err != nil {
		return err
	}
	defer last.kill()
	if err := t.finish(ctx, last); err != nil {
		return err
	}
	last.kill()
	t.runDoctor(ctx, "stopped")
	return context.Cause(ctx)
}
