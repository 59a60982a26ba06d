package bench

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
	"time"
)

// Queries are times of requests that count or filter, on a small store and on a large one.
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
	smallStore    = 6_000 // completed runs
	largeStore    = 600_000
	runsPerThread = 6
	queryTries    = 200
)

// queryRequests returns the requests by name.
func queryRequests() []struct{ name, path string } {
	filtered := func(list, q string) string { return "/v1/" + list + "?" + url.Values{"q": {q}}.Encode() }
	return []struct{ name, path string }{
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
		{"newest threads", "/v1/threads"},
	}
}

// queries measures requests to a real server on stores of two sizes.
func (b *bench) queries(ctx context.Context, dir string) error {
	q := &Queries{}
	for _, size := range []struct {
		runs  int
		times *QueryTimes
	}{{b.scaled(smallStore, 60), &q.Small}, {b.scaled(largeStore, 120), &q.Large}} {
		err := b.inTempDir(filepath.Join(filepath.Base(dir), strconv.Itoa(size.runs)), func(dir string) error {
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
	b.Progress("queries: completing %d runs", runs)
	d, err := b.newDriver(ctx, dir, load{})
	if err != nil {
		return err
	}
	d.threads = runs / runsPerThread
	d.fixture.startEngine(newTimedAgent(d.onAgentStart), b.Slots)
	if err := errors.Join(d.fill(ctx, runs), d.drain(ctx), d.fixture.close()); err != nil {
		return err
	}
	out.Runs, out.Threads = d.submitted.Load(), d.threads
	return b.withServer(ctx, dir, func(s *served) error {
		for _, r := range queryRequests() {
			b.Progress("queries: %s", r.name)
			times, err := s.measure(ctx, r.path, b.scaled(queryTries, 5))
			if err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
			out.Requests = append(out.Requests, RequestTime{r.name, times})
		}
		return nil
	})
}

// served is a real server in a process of its own.
type served struct {
	url, token string
	listening  time.Time // when it reported that it listens
}

// withServer calls f with a server on the folder's store, and kills the server.
func (b *bench) withServer(ctx context.Context, dir string, f func(*served) error) (err error) {
	if err := os.WriteFile(filepath.Join(dir, "mailroom.toml"), []byte(b.Config), 0o600); err != nil {
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
	out := &served{listening: time.Now()}
	out.url, _, _ = strings.Cut(strings.TrimPrefix(line, "listening on "), ",")
	go func() {
		defer close(discarded)
		// Until the process is killed, which is also the error.
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
		if i > 0 { // the first one prepares statements
			times.add(time.Since(began))
		}
	}
	return times.times(), nil
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
