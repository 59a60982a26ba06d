package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/client"
)

var (
	killsFlag = flag.Int("kills", 2, "number of kills while readers follow the server through a bad network")
	words     = flag.Int("words", 50, "length of each run's reply, in words")
	readers   = flag.Int("readers", 20, "number of readers, half of them over WebSocket")
)

// chaos is a server that is killed repeatedly, and its readers behind a bad network.
type chaos struct {
	t     *testing.T
	seed  uint64
	plain string
	dir   string
	proxy *badProxy

	server  *process
	threads []string
	runs    []string
	sse     []map[string]*account // what each reader over SSE has received, by thread
	sockets []*socketReader
}

const chaosConfig = `lease = "1s"
renew = "200ms"
sweep = "100ms"
log_level = "warn"

[agents.echo]
kind = "echo"
pace = "3ms"
`

func (c *chaos) start() {
	c.t.Helper()
	p, err := launch(c.plain, nil, "listening on ", "serve", "--listen", "127.0.0.1:0", "--data",
		filepath.Join(c.dir, "data"), "--config", filepath.Join(c.dir, "config.toml"))
	if err != nil {
		c.t.Fatal(err)
	}
	c.server = p
	if err := p.await(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	token, err := os.ReadFile(filepath.Join(c.dir, "data", "token"))
	if err != nil {
		c.t.Fatal(err)
	}
	p.token = strings.TrimSpace(string(token))
	c.proxy.setUpstream(p.url)
}

// direct returns a client that bypasses the proxy.
func (c *chaos) direct() *client.Client {
	return client.New(c.server.url, c.server.token,
		client.WithHTTPClient(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}))
}

// submit queues the runs.
func (c *chaos) submit(runs, threads int) {
	c.t.Helper()
	for i := range threads {
		c.threads = append(c.threads, fmt.Sprintf("thread-%d", i))
	}
	words := strings.Repeat("fár, ", *words)
	for i := range runs {
		out, err := c.direct().Submit(c.t.Context(), api.Submit{Thread: c.threads[i%threads],
			Text: fmt.Sprintf("%d %s", i, words), Agent: "echo"})
		if err != nil {
			c.t.Fatal(err)
		}
		c.runs = append(c.runs, out.Run)
	}
}

// follow starts the readers. They follow all threads until ctx ends.
func (c *chaos) follow(ctx context.Context, wg *sync.WaitGroup) {
	const silence = 1500 * time.Millisecond
	for i := range *readers {
		web := &http.Transport{DisableKeepAlives: true}
		context.AfterFunc(ctx, web.CloseIdleConnections)
		at := target{url: c.proxy.url(), token: c.server.token, http: &http.Client{Transport: web}}
		accounts := map[string]*account{}
		kind := []string{"sse", "socket"}[i%2]
		for _, thread := range c.threads {
			accounts[thread] = newAccount(fmt.Sprintf("%s reader %d of %s", kind, i, thread))
		}
		if kind == "socket" {
			s := &socketReader{accounts: accounts, at: at, silence: silence}
			c.sockets = append(c.sockets, s)
			wg.Go(func() { s.follow(ctx) })
			continue
		}
		c.sse = append(c.sse, accounts)
		reader := client.New(at.url, at.token, client.WithHTTPClient(at.http), client.WithIdleTimeout(silence),
			client.WithBackoff(5*time.Millisecond, 200*time.Millisecond), client.WithMaxAttempts(1_000_000),
			client.WithRetryTimeout(0))
		for thread, a := range accounts {
			wg.Go(func() { a.follow(ctx, reader, thread) })
		}
	}
}

// follow reads a thread over event streams until ctx ends.
func (a *account) follow(ctx context.Context, c *client.Client, thread string) {
	for e, err := range c.Follow(ctx, client.FollowQuery{Thread: thread}) {
		switch {
		case err != nil && ctx.Err() == nil:
			a.note("it stopped: %v", err)
		case e.Entry != nil:
			a.entry(*e.Entry, e.ID)
		case e.Delta != nil:
			a.delta(*e.Delta, e.ID)
		case e.Gap != nil:
			a.note("a gap: %+v", *e.Gap)
		}
	}
}

// each calls f for every reader's account of every thread.
func (c *chaos) each(f func(thread string, a *account)) {
	all := c.sse
	for _, s := range c.sockets {
		all = append(all[:len(all):len(all)], s.accounts)
	}
	for _, accounts := range all {
		for thread, a := range accounts {
			f(thread, a)
		}
	}
}

// logs waits until all runs have ended, and returns the threads' entries.
func (c *chaos) logs(ctx context.Context) map[string][]mailroom.Entry {
	c.t.Helper()
	for _, run := range c.runs {
		if r, err := c.direct().WaitRun(ctx, run, 0); err != nil || !r.Status.Finished() {
			c.t.Fatalf("run %s: %s, %v", run, r.Status, err)
		}
	}
	out := map[string][]mailroom.Entry{}
	for _, thread := range c.threads {
		for {
			page, err := c.direct().Entries(ctx, thread, client.EntriesQuery{After: int64(len(out[thread])), Limit: 500})
			if err != nil {
				c.t.Fatal(err)
			}
			out[thread] = append(out[thread], page.Items...)
			if page.Next == nil {
				break
			}
		}
	}
	return out
}

// TestReadersBehindABadNetworkGetExactlyTheLog checks 20 readers, over event streams and
// WebSockets, behind a proxy that drops, delays, truncates and half opens their connections. They
// follow 50 runs of a server that is killed repeatedly with SIGKILL.
func TestReadersBehindABadNetworkGetExactlyTheLog(t *testing.T) {
	plain, _ := build(t)
	c := &chaos{t: t, seed: *seedFlag, plain: plain, dir: t.TempDir()}
	if c.seed == 0 {
		c.seed = rand.Uint64()
	}
	dice := rand.New(rand.NewPCG(c.seed, 0))
	var err error
	if c.proxy, err = newBadProxy(c.seed); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(c.dir, "config.toml"), []byte(chaosConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	var wg sync.WaitGroup
	defer func() {
		stop()
		if err := c.proxy.close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
		c.server.kill()
	}()
	begin := time.Now()
	c.start()
	c.submit(50, 5)
	c.follow(ctx, &wg)
	for range *killsFlag {
		pause(ctx, time.Duration(200+dice.IntN(800))*time.Millisecond)
		c.server.kill()
		c.start()
	}
	logs := c.logs(ctx)
	ended := time.Since(begin)
	c.each(func(thread string, a *account) {
		if !a.reached(len(logs[thread]), ctx.Done()) {
			t.Errorf("%s did not reach the end of the log", a.who)
		}
	})
	entries, deltas, texts, readings := 0, 0, 0, 0
	c.each(func(thread string, a *account) {
		a.compare(t, logs[thread])
		entries, deltas, texts, readings = entries+len(a.entries), deltas+a.deltas, texts+a.checked, readings+1
	})
	written := 0
	for _, log := range logs {
		written += len(log)
	}
	t.Logf("seed %d: %d runs, %d entries, %d kills; the last run ended after %s, the last reader after %s",
		c.seed, len(c.runs), written, *killsFlag, ended.Round(time.Millisecond), time.Since(begin).Round(time.Millisecond))
	t.Logf(
		"%d readers (%d over WebSocket) of %d threads each read %d entries and %d deltas, and compared the live text of %d messages",
		*readers, len(c.sockets), len(c.threads), entries, deltas, texts)
	t.Logf("%s", c.proxy)
	if deltas == 0 || texts == 0 {
		t.Error("no streamed text was read")
	}
}
