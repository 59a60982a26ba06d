package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// process is a server that a peer needs.
type process struct {
	name   string
	cmd    *exec.Cmd
	exited chan struct{} // closed after the process has exited and exit is set
	exit   error

	mu     sync.Mutex
	output bytes.Buffer // owned by mu
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.output.Len() > 64<<10 {
		return len(b), nil // the beginning of the output is enough to explain an error
	}
	return p.output.Write(b)
}

// startProcess starts a server and waits until ready returns nil.
func startProcess(ctx context.Context, cmd *exec.Cmd, ready func(context.Context) error) (*process, error) {
	p := &process{name: cmd.Path, cmd: cmd, exited: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p, p
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	go func() { // close waits for it
		p.exit = cmd.Wait()
		close(p.exited)
	}()
	const timeout = 30 * time.Second
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%s is not ready after %s", p.name, timeout))
	defer cancel()
	for {
		err := ready(ctx)
		if err == nil {
			return p, nil
		}
		select {
		case <-p.exited:
			return nil, fmt.Errorf("%s exited: %w: %s", p.name, p.exit, p.all())
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), err, p.close(os.Kill))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (p *process) all() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.TrimSpace(p.output.String())
}

// close stops the process with a signal, and with KILL if it does not exit in time.
func (p *process) close(by os.Signal) error {
	if err := p.cmd.Process.Signal(by); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", p.name, err)
	}
	select {
	case <-p.exited:
		return nil
	case <-time.After(20 * time.Second):
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", p.name, err)
	}
	<-p.exited
	return fmt.Errorf("%s did not stop in time and was killed: %s", p.name, p.all())
}
