package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"mailroom"
	"mailroom/api"
	"mailroom/client"
	"mailroom/worker"
)

// Workers are the figures of a worker of each language, and what idle ones cost.
type Workers struct {
	Languages []Language `json:"languages"`
	// Missing names the languages that were not measured, with the reason.
	Missing []string `json:"missing"`
}

// Language has the figures of one process with workerSlots slots that serves an agent of a server in another process.
// Its handler only answers with the time.
type Language struct {
	Name   string `json:"name"`
	Full   Load   `json:"full"`
	Steady Load   `json:"steady"` // load at workerRate
	// RequestsPerMinute are those of a worker that has nothing to do, without the renewals of its lease.
	RequestsPerMinute float64 `json:"idle_requests_per_minute"`
}

const (
	workerSlots = 64
	workerRate  = 100
	workerAgent = "answer"
	workerIdle  = 2 * time.Minute // longer than the longest poll for claims
	workerAlive = time.Minute     // time in which a worker must register
)

//go:embed programs
var answers embed.FS // archtest: embedded files, never written.

// workerProgram starts a worker, with the server and the token in its environment.
type workerProgram struct {
	name string
	args []string
	env  []string
}

// workerPrograms returns the programs that can run here, and why the others cannot. It writes their files to dir.
func (b *bench) workerPrograms(dir string) (programs []workerProgram, missing []string, err error) {
	library, err := filepath.Abs(b.Clients)
	if err != nil {
		return nil, nil, fmt.Errorf("find the client libraries: %w", err)
	}
	slots := strconv.Itoa(workerSlots)
	python := filepath.Join(library, "python", "src")
	programs = append(programs, workerProgram{name: "Go", args: []string{b.Executable, "work", slots}})
	for _, l := range []struct {
		name, program, file, library, variable string
	}{
		{"Python", "python3", "answer.py", python, "PYTHONPATH"},
		{"Python, async", "python3", "answer_async.py", python, "PYTHONPATH"},
		{"JavaScript", "node", "answer.mjs", filepath.Join(library, "js", "worker", "index.js"), ""},
	} {
		path, err := exec.LookPath(l.program)
		if err == nil {
			_, err = os.Stat(l.library)
		}
		if err != nil {
			missing = append(missing, fmt.Sprintf("%s: %v", l.name, err))
			continue
		}
		file := filepath.Join(dir, l.file)
		source, err := answers.ReadFile("programs/" + l.file)
		if err == nil {
			err = os.WriteFile(file, source, 0o600)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("write a worker: %w", err)
		}
		p := workerProgram{name: l.name, args: []string{path, file, slots}}
		if l.variable != "" {
			p.env = []string{l.variable + "=" + l.library}
		} else {
			p.args = append(p.args, l.library)
		}
		programs = append(programs, p)
	}
	return programs, missing, nil
}

// workers measures a worker of each language, one after the other, and then how often all of them call when idle.
func (b *bench) workers(ctx context.Context, dir string) error {
	programs, missing, err := b.workerPrograms(dir)
	if err != nil {
		return err
	}
	out := &Workers{Missing: missing}
	for i, p := range programs {
		b.Progress("workers: %s", p.name)
		l := Language{Name: p.name}
		err := b.inTempDir(filepath.Join(filepath.Base(dir), strconv.Itoa(i)), func(dir string) error {
			return b.withServer(ctx, dir, "", func(s *served) error {
				return b.withWorker(ctx, s.url, s, p, func(pid int) (err error) {
					return b.measureLanguage(ctx, s, pid, &l)
				})
			})
		})
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		out.Languages = append(out.Languages, l)
	}
	b.result.Workers = out
	return b.inTempDir(filepath.Join(filepath.Base(dir), "idle"), func(dir string) error {
		return b.withServer(ctx, dir, "", func(s *served) error { return b.measureIdle(ctx, s, programs, out) })
	})
}

// measureLanguage measures a worker at full load and at a steady rate.
func (b *bench) measureLanguage(ctx context.Context, s *served, worker int, into *Language) error {
	for _, load := range []struct {
		rate int
		into *Load
	}{{0, &into.Full}, {workerRate, &into.Steady}} {
		o := b.newOutside(s, workerAgent)
		o.worker, o.timed = worker, true
		l, err := o.measure(ctx, b, load.rate)
		if err != nil {
			return err
		}
		*load.into = *l
	}
	return nil
}

// withWorker calls f while a worker runs that reaches its server at address, once a run has shown that it serves its
// agent. Then it ends the worker.
func (b *bench) withWorker(
	ctx context.Context, address string, s *served, p workerProgram, f func(pid int) error,
) (err error) {
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, p.args[0], p.args[1:]...)
	cmd.Env = append(append(os.Environ(), p.env...), "MAILROOM_URL="+address, "MAILROOM_TOKEN="+s.token)
	cmd.Stderr = &limitedBuffer{to: &said, left: 4 << 10}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the worker: %w", err)
	}
	defer func() {
		if kill := cmd.Process.Kill(); kill != nil && !errors.Is(kill, os.ErrProcessDone) {
			err = errors.Join(err, kill)
		}
		// The exit status of the kill is expected.
		if exit := cmd.Wait(); exit != nil && err != nil {
			err = fmt.Errorf("%w; the worker said: %s", err, strings.TrimSpace(said.String()))
		}
	}()
	if err := b.waitRegistered(ctx, s, cmd.Process.Pid); err != nil {
		return err
	}
	return f(cmd.Process.Pid)
}

// waitRegistered waits until a process has registered a worker of the agent.
func (b *bench) waitRegistered(ctx context.Context, s *served, pid int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, workerAlive, errors.New("the worker has not registered its agent"))
	defer cancel()
	c := client.New(s.url, s.token)
	for {
		known, err := c.Workers(ctx)
		if err != nil {
			return errors.Join(context.Cause(ctx), err)
		}
		if slices.ContainsFunc(known, func(w api.Worker) bool {
			return w.PID == pid && slices.Contains(w.Agents, workerAgent)
		}) {
			return nil
		}
		if err := sleepUntil(ctx, time.Now().Add(probeEvery)); err != nil {
			return err
		}
	}
}

// limitedBuffer keeps the beginning of what is written to it.
type limitedBuffer struct {
	to   *bytes.Buffer
	left int
}

func (l *limitedBuffer) Write(p []byte) (int, error) {
	kept := p[:min(len(p), l.left)]
	l.left -= len(kept)
	l.to.Write(kept)
	return len(p), nil
}

// measureIdle counts the requests of workers that have nothing to do, all at the same time.
func (b *bench) measureIdle(ctx context.Context, s *served, programs []workerProgram, out *Workers) error {
	idle := max(time.Second, time.Duration(float64(workerIdle)*b.Scale))
	b.Progress("workers: requests while idle, %s", idle)
	group, ctx := errgroup.WithContext(ctx)
	for i, p := range programs {
		group.Go(func() error { return b.measureIdleWorker(ctx, s, p, idle, &out.Languages[i]) })
	}
	return group.Wait()
}

func (b *bench) measureIdleWorker(
	ctx context.Context, s *served, p workerProgram, idle time.Duration, into *Language,
) (err error) {
	counter, err := countRequests(s.url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, counter.close()) }()
	return b.withWorker(ctx, counter.url, s, p, func(int) error {
		// The first two calls register the worker and ask for a run.
		for counter.calls.Load() < 2 {
			if err := sleepUntil(ctx, time.Now().Add(probeEvery)); err != nil {
				return err
			}
		}
		before := counter.calls.Load()
		if err := sleepUntil(ctx, time.Now().Add(idle)); err != nil {
			return err
		}
		into.RequestsPerMinute = float64(counter.calls.Load()-before) / idle.Minutes()
		return nil
	})
}

// requestCounter is a proxy before a server that counts requests other than renewals.
type requestCounter struct {
	url   string
	calls atomic.Int64
	web   *http.Server
	done  chan error
}

func countRequests(server string) (*requestCounter, error) {
	target, err := url.Parse(server)
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &requestCounter{url: "http://" + ln.Addr().String(), done: make(chan error, 1)}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // workers end with an open request
	c.web = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasSuffix(r.URL.Path, "/renew") {
				c.calls.Add(1)
			}
			proxy.ServeHTTP(w, r)
		})}
	go func() { c.done <- c.web.Serve(ln) }() // close waits for it
	return c, nil
}

func (c *requestCounter) close() error {
	err := c.web.Close()
	if served := <-c.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// runWorker serves the agent of the part "workers" in Go.
func runWorker(ctx context.Context, slots int) error {
	return worker.Serve(ctx, worker.Options{Slots: slots}, map[string]mailroom.Agent{
		workerAgent: mailroom.AgentFunc(func(ctx context.Context, s mailroom.Session) error {
			return s.Stream(ctx, strconv.FormatInt(time.Now().UnixNano(), 10))
		}),
	})
}
