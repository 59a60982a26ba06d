package cli

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"time"

	"mailroom/app/command"
	"mailroom/internal/recovery"
	"mailroom/internal/retry"
	"mailroom/protocol/bell"
)

// Harnesses of the sessions that `mailroom mcp` rings.
const (
	claudeHarness   = "claude"
	codexHarness    = "codex"
	opencodeHarness = "opencode" // rung by a plug-in, which starts a process for that
)

// session is a session that may have started this MCP server.
type session struct {
	bell.Bell
	harness, id string
	process     string        // see [bell.Listener]
	held        <-chan string // see [bell.Ringer]
	record      string        // see [bell.Listener]
}

// sessions returns the sessions that may have started this process. caller is the thread of codex that called a
// tool, "" before the first call.
func sessions(con *command.Console, caller string) (all []session) {
	if c, ok := bell.ClaudeFrom(con.Env); ok {
		return []session{{c, claudeHarness, c.Session, c.Socket, nil, c.Record(con.Env)}}
	}
	open := bell.CodexFrom(os.Getppid())
	for _, c := range open {
		if caller == "" || c.Thread == caller {
			all = append(all, session{c, codexHarness, c.Thread, "", nil, ""})
		}
	}
	if caller != "" && len(all) == 0 {
		c := &bell.Codex{Program: "codex", Home: con.Env("CODEX_HOME"), Thread: caller}
		all = []session{{c, codexHarness, caller, "", nil, ""}}
	}
	return all
}

// standby says how often a server looks whether it may ring: whether its session is known, and no other server of the
// session rings.
func standby() retry.Policy {
	return retry.Policy{First: time.Second, Factor: 1.5, Most: 30 * time.Second}
}

// sessionRinger rings the session that has started this process.
type sessionRinger struct {
	con     *command.Console
	server  *clientDialer
	thread  string // the inbox
	dir     bell.Listeners
	log     *slog.Logger
	callers chan string // threads of codex that called a tool
	// sessions returns the sessions that may be rung, for the last of callers.
	sessions func(caller string) []session
}

// call is called with the metadata of each call of a tool. codex puts its thread there.
func (r *sessionRinger) call(meta map[string]any) {
	if id, ok := meta["threadId"].(string); ok {
		select {
		case r.callers <- id:
		default: // one waits already
		}
	}
}

// run rings while mail waits in the inbox, until ctx ends or the session is gone.
func (r *sessionRinger) run(ctx context.Context) {
	caller := ""
	for n := 1; !r.try(ctx, caller); n++ {
		timer := time.NewTimer(standby().Delay(n, 0))
		select {
		case <-ctx.Done():
		case caller = <-r.callers:
		case <-timer.C:
		}
		if timer.Stop(); ctx.Err() != nil {
			return
		}
	}
}

// claim returns the session of this process with its entry among the listeners. It returns false if the session is not
// known yet, or if another process rings it. Of several threads in one process of codex, it is the newest that no
// process rings: a thread whose MCP server was killed stays open there.
func (r *sessionRinger) claim(caller string) (s session, entry *bell.Listening, ok bool, err error) {
	all := r.sessions(caller)
	slices.SortFunc(all, func(a, b session) int { return cmp.Compare(b.id, a.id) }) // ids of threads begin with their time
	for _, s := range all {
		entry, err := r.dir.Add(bell.Listener{Inbox: r.thread, Server: r.server.address(), Harness: s.harness,
			Session: s.id, Process: s.process, Record: s.record, PID: os.Getpid(), Since: time.Now()})
		if errors.Is(err, bell.ErrListening) {
			continue
		}
		return s, entry, err == nil, err
	}
	return s, nil, false, nil
}

// try rings the session of this process, if it can be claimed. It returns true when nothing is left to do.
func (r *sessionRinger) try(ctx context.Context, caller string) (done bool) {
	if _, err := r.server.dial(); err != nil { // no server is known yet, or no token
		return false
	}
	s, entry, ok, err := r.claim(caller)
	if err != nil {
		r.log.Warn("the session is not rung", "error", err)
		return true
	}
	if !ok {
		return false
	}
	defer func() {
		if err := entry.Close(); err != nil {
			r.log.Warn("the session is still listed as a listener", "error", err)
		}
	}()
	ringer := bell.Ringer{Name: r.thread, Bell: s, Log: r.log, Held: s.held,
		Inbox: &remoteInbox{thread: r.thread, dial: r.server.dial, lasting: func(error) bool { return false }},
		Note: func(state bell.State, err error) {
			entry.Rings, entry.Rung, entry.Read, entry.Problem = state.Rings, state.Rung, state.Read, ""
			entry.Held = state.Held
			if err != nil {
				entry.Problem = err.Error()
			}
			if err := entry.Save(); err != nil {
				r.log.Warn("the list of listeners is out of date", "error", err)
			}
		}}
	if err := ringer.Run(ctx); errors.Is(err, bell.ErrGone) {
		r.log.Warn("the session is not rung any more", "error", err)
		<-ctx.Done() // it stays listed, with its problem
	}
	return true
}

// startRinging rings the session of this process until stop is called, which waits for the end. call takes the
// metadata of each call of a tool.
func startRinging(
	ctx context.Context, con *command.Console, server *clientDialer, thread string, log *slog.Logger,
) (call func(meta map[string]any), stop func()) {
	dir, err := bell.ListenersFolder(con.Env)
	if err != nil {
		log.Warn("the session is not rung", "error", err)
		return nil, func() {}
	}
	r := &sessionRinger{con: con, server: server, thread: thread, dir: dir, log: log, callers: make(chan string, 1),
		sessions: func(caller string) []session { return sessions(con, caller) }}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer recovery.Log(log, "ringing the session")
		defer close(done)
		r.run(ctx)
	}()
	return r.call, func() { cancel(); <-done }
}
