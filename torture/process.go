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
	"time"
)

// process is a server, or a worker, in a process of its own.
type process struct {
	cmd    *exec.Cmd
	url    string
	token  string
	ready  chan struct{} // closed when it said the words that were waited for
	exited chan struct{} // closed when it has ended

	mu    sync.Mutex
	lines []string // owned by mu: the last of what it said
	doom  string   // owned by mu: the point at which it killed itself, or ""
}

// patience bounds waits for what takes milliseconds, on a machine that may be
// busy with something else.
const patience = 60 * time.Second

// launch starts a program and does not wait for it.
func launch(binary string, env []string, ready string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(binary, args...), ready: make(chan struct{}), exited: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	out, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", binary, err)
	}
	go func() { // ends with the process; kill and await wait for it
		p.listen(out, ready)
		_ = p.cmd.Wait() // how it ended is told by what it said
		close(p.exited)
	}()
	return p, nil
}

// listen keeps what the process says, until it ends.
func (p *process) listen(out io.Reader, ready string) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		p.mu.Lock()
		p.lines = append(p.lines, line)
		if n := len(p.lines) - 200; n > 0 {
			p.lines = p.lines[n:]
		}
		if point, ok := strings.CutPrefix(line, "killpoint: "); ok {
			p.doom = point
		}
		p.mu.Unlock()
		if strings.Contains(line, ready) {
			p.url = address(line)
			close(p.ready)
			ready = "\x00" // said once
		}
	}
}

func address(line string) string {
	_, url, _ := strings.Cut(line, "listening on ")
	url, _, _ = strings.Cut(url, ",")
	return url
}

var errEnded = errors.New("the process has ended")

// await waits until the process is ready; errEnded if it ends first.
func (p *process) await(ctx context.Context) error {
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-p.ready:
		return nil
	case <-p.exited:
		return fmt.Errorf("%w: %s", errEnded, p.last(5))
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-late.C:
		return fmt.Errorf("it is not ready after %s: %s", patience, p.last(20))
	}
}

// kill ends the process at once, if it is there, and waits until it is gone.
func (p *process) kill() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Kill() // it may have ended by itself
	<-p.exited
}

// gone reports whether the process has ended by itself.
func (p *process) gone() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// point is where the process killed itself, "" if it did not.
func (p *process) point() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.doom
}

// died reports whether the process killed itself, a moment ago perhaps.
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

// serve launches a server on the data folder.
func (t *torture) serve(binary, config, doom string) (*process, error) {
	env := []string{"MAILROOM_TORTURE=" + doom, "MAILROOM_TORTURE_FILE=" + t.effectsFile(), "MAILROOM_TORTURE_LIMIT="}
	if config == t.config(narrow) {
		env[2] += "5"
	}
	return launch(binary, env, "listening on ", "serve", "--listen", "127.0.0.1:0", "--data", t.data(), "--config", config)
}

// up starts a server and waits until it listens.
func (t *torture) up(ctx context.Context, binary, config, doom string) (*process, error) {
	p, err := t.serve(binary, config, doom)
	if err != nil {
		return nil, err
	}
	if err := p.await(ctx); err != nil {
		p.kill()
		return p, err
	}
	token, err := os.ReadFile(filepath.Join(t.data(), "token"))
	if err != nil {
		p.kill()
		return p, fmt.Errorf("read the token: %w", err)
	}
	p.token = strings.TrimSpace(string(token))
	return p, nil
}

// refused checks that a second server on the folder refuses to start.
func (t *torture) refused(ctx context.Context, binary string) error {
	second, err := t.serve(binary, t.config(usual), "")
	if err != nil {
		return err
	}
	defer second.kill()
	err = second.await(ctx)
	if errors.Is(err, errEnded) && strings.Contains(second.last(5), "already holds") {
		return nil
	}
	return fmt.Errorf("a second server on the same folder was not refused: %w", err)
}

// doctor examines the store, or with a path writes a copy there and examines
// that; nil if it found nothing. It may run beside a server, or without.
func (t *torture) doctor(ctx context.Context, backup string) error {
	args := []string{"doctor", "--data", t.data(), "-o", "json"}
	if backup != "" {
		args = append(args, "--backup", backup)
	}
	cmd := exec.CommandContext(ctx, t.plain, args...)
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
