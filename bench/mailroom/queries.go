package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"mailroom"
	"mailroom/client"
)

// Queries are the times of requests that count or filter runs, on a small store and on a large one.
type Queries struct {
	Small QueryTimes `json:"small"`
	Large QueryTimes `json:"large"`
}

// QueryTimes are the times of the requests on one store.
type QueryTimes struct {
	Runs     int64         `json:"runs"`
	Threads  int           `json:"threads"`
	Requests []RequestTime `json:"requests"`
}

// RequestTime is the time of one request, from its call until its body was read.
type RequestTime struct {
	Name string `json:"name"`
	Times
}

const (
	// DefaultQueryRuns is the number of runs in the large store. The small store has a hundredth of them.
	DefaultQueryRuns = 600_000
	runsPerThread    = 6
	queryTries       = 200
	// One of failEvery runs fails, with an error of one of two groups. With that, both stores have more failures than
	// a request reads, if the small store has at least 20,000 runs.
	failEvery = 2
)

// queryRequest is a request that is measured.
type queryRequest struct{ name, path string }

// queryRequests returns the requests for a number of runs, of which half were created before middle. What a page of the
// console asks for when it opens is among them.
func queryRequests(runs int, middle time.Time) []queryRequest {
	filtered := func(list, q string) string { return "/v1/" + list + "?" + url.Values{"q": {q}}.Encode() }
	second := middle.UTC().Format(time.RFC3339)
	return append([]queryRequest{
		{"/v1/stats", "/v1/stats"},
		{"/metrics", "/metrics"},
		{"/v1/agents", "/v1/agents"},
		{"newest runs", "/v1/runs"},
		{"status:completed", filtered("runs", "status:completed")},
		{"status:running", filtered("runs", "status:running")},
		{"status:queued", filtered("runs", "status:queued")},
		{"status:failed", filtered("runs", "status:failed")},
		{"agent:echo", filtered("runs", "agent:echo")},
		{"agent:echo status:failed", filtered("runs", "agent:echo status:failed")},
		{"agent of no run", filtered("runs", "agent:none")},
		{"error of no run", filtered("runs", `error:"no such text"`)},
		{"created on a day without runs", filtered("runs", "created:2020-01-01")},
		{"created in a second", filtered("runs", "created:"+second)},
		{"newest threads", "/v1/threads"},
		{"open tickets", filtered("tickets", "state:open")},
		{"word of all messages", "/v1/search?q=answer"},
		{"words of the oldest message", "/v1/search?q=question+1"},
		{"words of a message between", "/v1/search?q=question+" + strconv.Itoa(runs/2)},
		{"word of no message", "/v1/search?q=nowhere"},
		{"failures", "/v1/failures"},
		{"failures of an agent", filtered("failures", "agent:echo")},
		{"count status:failed", filtered("runs/count", "status:failed")},
		{"count of other filters", filtered("runs/count", "mode:queue delivery:no")},
	}, consoleRequests()...)
}

// consoleRequests returns requests of the pages of the console, with their limits.
func consoleRequests() []queryRequest {
	filtered := func(list, q, limit string) string {
		return "/v1/" + list + "?" + url.Values{"q": {q}, "limit": {limit}}.Encode()
	}
	waits := func(q string) string { return "/v1/waits?" + url.Values{"q": {q}}.Encode() }
	month := "&from=" + time.Now().UTC().AddDate(0, 0, -30).Format(time.RFC3339)
	return []queryRequest{
		{"runs of a day by minute", "/v1/stats/series"},
		{"runs of 30 days by hour", "/v1/stats/series?step=hour"},
		{"runs of a year by day", "/v1/stats/series?step=day"},
		{"runs of a day by minute of an agent", "/v1/stats/series?agent=echo"},
		{"runs of a day by agent", "/v1/stats/sums?step=hour"},
		{"runs of 31 days by agent", "/v1/stats/sums?step=day" + month},
		{"runs of 31 days by value of a label", "/v1/stats/sums?by=label" + month},
		{"report of a night", "/v1/report"},
		{"why runs wait", waits("delivery:no")},
		{"why runs of an agent wait", waits("agent:" + pausedAgent)},
		{"100 queued runs and their waits", filtered("runs", "status:queued", "100")},
		{"100 newest runs", "/v1/runs?limit=100"},
		{"100 newest threads", "/v1/threads?limit=100"},
		{"500 open questions", filtered("tickets", "state:open", "500")},
		{"200 groups of failures", "/v1/failures?limit=200"},
		{"workers", "/v1/workers"},
		{"channels", "/v1/channels"},
		{"alerts", "/v1/alerts"},
		{"tokens", "/v1/tokens"},
		{"audit log", "/v1/audit?limit=100"},
		{"audit log of an actor", filtered("audit", "actor:operator-07", "100")},
		{"audit log of an action", filtered("audit", "action:agent.resume", "100")},
		{"audit log of a name of none", filtered("audit", "object:none", "100")},
		{"audit log of an hour before", filtered("audit", "at:2026-01-01T00:00:00Z..2026-01-01T01:00:00Z", "100")},
	}
}

// queries measures requests to a real server on stores of two sizes.
func (b *bench) queries(ctx context.Context, dir string) error {
	q := &Queries{}
	for _, size := range []struct {
		runs  int
		times *QueryTimes
	}{{b.scaled(b.QueryRuns/100, 60), &q.Small}, {b.scaled(b.QueryRuns, 120), &q.Large}} {
		name := strconv.Itoa(size.runs)
		err := b.inKept(name, filepath.Join(filepath.Base(dir), name), func(dir string) error {
			return b.measureQueries(ctx, dir, size.runs, size.times)
		})
		if err != nil {
			return err
		}
	}
	b.result.Queries = q
	return nil
}

func (b *bench) measureQueries(ctx context.Context, dir string, runs int, out *QueryTimes) error {
	p, err := b.populate(ctx, dir, runs)
	if err != nil {
		return err
	}
	middle := p.Began.Add(p.Took / 2)
	out.Runs, out.Threads = p.Runs, p.Threads
	config := b.Config
	defer func() { b.Config = config }()
	b.Config = b.historyConfig()
	err = b.withServer(ctx, dir, b.storeConfig(p.Schema), func(s *served) error {
		b.Progress("queries: asking questions and indexing messages")
		if err := s.ask(ctx, b.scaled(questions, 1)); err != nil {
			return err
		}
		if err := s.waitIndexed(ctx); err != nil {
			return err
		}
		for _, r := range queryRequests(runs, middle) {
			b.Progress("queries: %s", r.name)
			times, err := s.measure(ctx, r.path, b.scaled(queryTries, 5))
			if err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
			out.Requests = append(out.Requests, RequestTime{r.name, times})
		}
		return nil
	})
	return errors.Join(err, p.remove())
}

// storeConfig returns the tables of a server's configuration that select the store. schema is the schema of its
// tables, if the store is a database.
func (b *bench) storeConfig(schema string) string {
	if schema == "" {
		return ""
	}
	return fmt.Sprintf("[store]\nkind = \"postgres\"\n[postgres]\nurl = %q\nschema = %q\n", b.Store, schema)
}

// failingAgent fails one run out of a fixed number.
type failingAgent struct {
	mailroom.Agent
	every int64
	runs  atomic.Int64
}

func (a *failingAgent) Run(ctx context.Context, s mailroom.Session) error {
	switch n := a.runs.Add(1); {
	case n%(2*a.every) == 0:
		return &mailroom.Failure{Class: mailroom.ClassPermanent, Err: fmt.Errorf("no route to host 10.0.%d.%d", n%250, n%240)}
	case n%a.every == 0:
		return &mailroom.Failure{Class: mailroom.ClassPermanent, Err: fmt.Errorf("the model refused request %d", n)}
	}
	return a.Agent.Run(ctx, s)
}

// served is a server that runs in a separate process.
type served struct {
	url, token string
	pid        int
	listening  time.Time // when it reported that it listens
}

// unlimited ends the limit of writes of a token: the producers of a load share a token, and the server would refuse
// some of their writes.
const unlimited = "[limits]\nsubmits = 0\n"

// withServer calls f with a server on the folder's store, or on the one of the further configuration, and
// kills the server.
func (b *bench) withServer(ctx context.Context, dir, config string, f func(*served) error) (err error) {
	if err := os.WriteFile(filepath.Join(dir, "mailroom.toml"), []byte(b.Config+config+unlimited), 0o600); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	s, err := b.startChild(ctx, nil, true, "serve", "--data", dir, "--listen", "127.0.0.1:0")
	if err != nil {
		return err
	}
	discarded := make(chan struct{})
	defer func() {
		err = errors.Join(err, s.kill())
		<-discarded
	}()
	line, err := s.waitLine("listening on ")
	if err != nil {
		close(discarded)
		return fmt.Errorf("start a server: %w", err)
	}
	out := &served{listening: time.Now(), pid: s.cmd.Process.Pid}
	out.url, _, _ = strings.Cut(strings.TrimPrefix(line, "listening on "), ",")
	go func() {
		defer close(discarded)
		// The copy ends when the process is killed. The kill is also its error, which is expected.
		_, _ = io.Copy(io.Discard, s.lines)
	}()
	token, err := os.ReadFile(filepath.Join(dir, "token"))
	if err != nil {
		return fmt.Errorf("read the token: %w", err)
	}
	out.token = strings.TrimSpace(string(token))
	return f(out)
}

// measure repeats a request.
func (s *served) measure(ctx context.Context, path string, tries int) (Times, error) {
	times := &histogram{}
	for i := range tries + 1 {
		began := time.Now()
		if err := s.get(ctx, path); err != nil {
			return Times{}, err
		}
		if i > 0 { // does not count the first request, which prepares statements
			times.add(time.Since(began))
		}
	}
	return times.times(), nil
}

// waitIndexed waits until the search finds all messages.
func (s *served) waitIndexed(ctx context.Context) error {
	return again(ctx, func() (bool, error) {
		found, err := client.New(s.url, s.token).Search(ctx, client.SearchQuery{Q: "nowhere"})
		return found.Complete, err
	})
}

func (s *served) get(ctx context.Context, path string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s: %.200s", path, resp.Status, body)
	}
	return nil
}
