package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a server or a worker in a child process.
type process struct {
	cmd     *exec.Cmd
	url     string
	token   string
	ready   chan struct{} // closed when the process has printed the ready line
	exited  chan struct{} // closed when the process has exited
	frozen  chan struct{} // closed when the process is about to stop itself at a kill point
	resumed chan struct{} // closed when the process goes on after such a stop

	mu    sync.Mutex
	lines []string // owned by mu: last lines of the output
	doom  string   // owned by mu: the kill point at which the process killed or stopped itself, or ""
}

// waitTimeout bounds waits for events that take milliseconds, on a machine that may be busy.
const waitTimeout = 60 * time.Second

// launch starts a program without waiting for it.
func launch(binary string, env []string, ready string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(binary, args...), ready: make(chan struct{}), exited: make(chan struct{}),
		frozen: make(chan struct{}), resumed: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	out, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", binary, err)
	}
	go func() { // ends with the process; kill and await wait for it
		p.readOutput(out, ready)
		_ = p.cmd.Wait() // the output of the process says how it ended
		close(p.exited)
	}()
	return p, nil
}

// readOutput keeps the end of the process's output until it exits.
func (p *process) readOutput(out io.Reader, ready string) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		p.mu.Lock()
		p.lines = append(p.lines, line)
		if n := len(p.lines) - 200; n > 0 {
			p.lines = p.lines[n:]
		}
		if point, ok := strings.CutPrefix(line, "killpoint: "); ok && point == "resumed" {
			close(p.resumed)
		} else if ok {
			p.doom = point
			if strings.HasPrefix(point, "freeze ") {
				close(p.frozen) // a process has one point
			}
		}
		p.mu.Unlock()
		if strings.Contains(line, ready) {
			p.url = address(line)
			close(p.ready)
			ready = "\x00" // printed once
		}
	}
}

// resume continues a process that stops itself at a point. The process may get the signal before it has stopped, so
// resume repeats the signal.
func (p *process) resume(ctx context.Context) error {
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		if err := thaw(p.cmd.Process); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		select {
		case <-p.resumed:
			return nil
		case <-p.exited:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-again.C:
		}
	}
}

func address(line string) string {
	_, url, _ := strings.Cut(line, "listening on ")
	url, _, _ = strings.Cut(url, ",")
	return url
}

var errEnded = errors.New("the process has exited")

// await waits until the process is ready. It returns errEnded if it exits first.
func (p *process) await(ctx context.Context) error {
	late := time.NewTimer(waitTimeout)
	defer late.Stop()
	select {
	case <-p.ready:
		return nil
	case <-p.exited:
		return fmt.Errorf("%w: %s", errEnded, p.last(5))
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-late.C:
		return fmt.Errorf("not ready after %s: %s", waitTimeout, p.last(20))
	}
}

// kill kills the process, if it is running, and waits for its exit.
func (p *process) kill() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Kill() // the process may have exited by itself
	<-p.exited
}

// stop stops the process in order and waits for its exit.
func (p *process) stop(ctx context.Context) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	late := time.NewTimer(waitTimeout)
	defer late.Stop()
	select {
	case <-p.exited:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-late.C:
		return fmt.Errorf("not stopped after %s: %s", waitTimeout, p.last(20))
	}
	return nil
}

// hasExited reports whether the process has exited.
func (p *process) hasExited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// point returns the point at which the process killed itself, or "".
func (p *process) point() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.doom
}

// died reports whether the process killed itself. It waits for a moment, because the exit may not be noticed yet.
func (p *process) died() bool {
	moment := time.NewTimer(time.Second)
	defer moment.Stop()
	select {
	case <-p.exited:
		return p.point() != ""
	case <-moment.C:
		return false
	}
}

func (p *process) last(n int) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines[max(0, len(p.lines)-n):], "\n")
}

// serve launches a server on a data folder.
func (t *torture) serve(data, binary, config, doom string) (*process, error) {
	env := []string{"MAILROOM_TORTURE=" + doom, "MAILROOM_TORTURE_FILE=" + t.effectsFile(), "MAILROOM_TORTURE_LIMIT="}
	if config == t.config(narrow) {
		env[2] += "5"
	}
	return launch(binary, env, "listening on ", "serve", "--listen", "127.0.0.1:0", "--data", data, "--config", config)
}

// startServer starts a server and waits until it listens.
func (t *torture) startServer(ctx context.Context, data, binary, config, doom string) (*process, error) {
	p, err := t.serve(data, binary, config, doom)
	if err != nil {
		return nil, err
	}
	if err := p.await(ctx); err != nil {
		p.kill()
		return p, err
	}
	token, err := os.ReadFile(filepath.Join(data, "token"))
	if err != nil {
		p.kill()
		return p, fmt.Errorf("read the token: %w", err)
	}
	p.token = strings.TrimSpace(string(token))
	return p, nil
}

// checkSecondServer checks that a second server refuses to start on the folder of the first.
func (t *torture) checkSecondServer(ctx context.Context, binary string) error {
	second, err := t.serve(t.data(), binary, t.config(usual), "")
	if err != nil {
		return err
	}
	defer second.kill()
	err = second.await(ctx)
	if errors.Is(err, errEnded) && strings.Contains(second.last(5), "already uses") {
		return nil
	}
	return fmt.Errorf("a second server on the same folder was not refused: %w", err)
}

// doctor runs the doctor command on the store. If backup is not "", the command writes a copy of the store to that
// path and checks the copy. It returns nil if doctor finds nothing. A server may be running.
func (t *torture) doctor(ctx context.Context, program, backup string) error {
	args := []string{"doctor", "--data", t.data(), "-o", "json"}
	if backup != "" {
		args = append(args, "--backup", backup)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("mailroom %s: %w: %.2000s%s", strings.Join(args, " "), err, out, &errs)
	}
	if !json.Valid(out) {
		return fmt.Errorf("mailroom %s printed no JSON: %.200s", strings.Join(args, " "), out)
	}
	return nil
}
