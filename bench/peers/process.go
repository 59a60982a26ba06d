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
	"syscall"
	"time"
)

// process is a server that a peer needs.
type process struct {
	name   string
	cmd    *exec.Cmd
	exited chan struct{} // closed when it has ended, with exit set
	exit   error

	mu   sync.Mutex
	said bytes.Buffer // owned by mu
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.said.Len() > 64<<10 {
		return len(b), nil // a server that talks on and on has said why by now
	}
	return p.said.Write(b)
}

// startProcess starts a server, and waits until ready says that it is.
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
	const patience = 30 * time.Second
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("%s is not ready after %s", p.name, patience))
	defer cancel()
	for {
		err := ready(ctx)
		if err == nil {
			return p, nil
		}
		select {
		case <-p.exited:
			return nil, fmt.Errorf("%s has ended: %w: %s", p.name, p.exit, p.all())
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), err, p.close(os.Kill))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (p *process) all() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.TrimSpace(p.said.String())
}

// close ends it by a signal, and by force if that does not help.
func (p *process) close(by os.Signal) error {
	if err := p.cmd.Process.Signal(by); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("end %s: %w", p.name, err)
	}
	select {
	case <-p.exited:
		return nil
	case <-time.After(20 * time.Second):
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("end %s: %w", p.name, err)
	}
	<-p.exited
	return fmt.Errorf("%s did not end by itself: %s", p.name, p.all())
}

// as makes a command run as another user, by its ids; 0 leaves it.
func as(cmd *exec.Cmd, uid, gid uint32) *exec.Cmd {
	if uid != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid}}
	}
	return cmd
}
