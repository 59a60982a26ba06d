package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"mailroom/app/command"
	"mailroom/client"
	"mailroom/internal/recovery"
	"mailroom/internal/retry"
	"mailroom/protocol/bell"
)

// hookHarness is the harness of a listener that is a hook of claude.
const hookHarness = "hook"

// exitRewake is the exit code with which a hook with asyncRewake begins a turn, with its standard error.
const exitRewake = 2

// rewake is `mailroom inbox wait --rewake`: it ends with [exitRewake] when the session that runs it as a hook is due to
// be rung. It returns nil at once in a run of Mailroom, in a session that ends with its turn, and if another hook of it
// waits already, as one does after each turn.
func rewake(ctx context.Context, con *command.Console, thread string) error {
	log := slog.New(slog.NewTextHandler(con.Stderr, nil))
	if con.Env("MAILROOM_THREAD") != "" || endsWithItsTurn(con) {
		return nil
	}
	ctx, release := untilOrphaned(ctx, log)
	defer release()
	id, mode := hookSession(con)
	if id == "" {
		return command.Errorf(command.ExitFailed, "run it as a hook of claude", "no session is known")
	}
	if _, err := connectQuietly(con); err != nil {
		return rewakeFailed(err)
	}
	dir, err := bell.ListenersFolder(con.Env)
	if err != nil {
		return rewakeFailed(err)
	}
	l := bell.Listener{Inbox: thread, Server: con.Server, Harness: hookHarness, Session: id,
		Process: con.Env("CLAUDE_CODE_MESSAGING_SOCKET"), Mode: mode, PID: os.Getpid(), Since: time.Now()}
	hook, err := dir.Add(l)
	if errors.Is(err, bell.ErrListening) {
		return nil
	}
	if err != nil {
		return rewakeFailed(err)
	}
	defer closeEntry(hook, log)
	l.Harness = claudeHarness
	entry, err := standIn(ctx, dir, l)
	if err != nil {
		return rewakeFailed(err)
	}
	defer closeEntry(entry, log)
	start, err := hook.State()
	if err != nil {
		return rewakeFailed(err)
	}
	return rewakeWhenDue(ctx, con, thread, hook, start)
}

// endsWithItsTurn reports whether no person is at the session, as in `claude -p`. claude ends such a session after its
// last hook has ended, also one with asyncRewake.
func endsWithItsTurn(con *command.Console) bool {
	return con.Env("CLAUDE_CODE_SESSION_ATTENDED") == "0" || strings.HasPrefix(con.Env("CLAUDE_CODE_ENTRYPOINT"), "sdk")
}

// parentLook is the interval between two looks at the process that started a hook.
const parentLook = 2 * time.Second

var errOrphan = errors.New("the session that started this hook has ended")

// untilOrphaned returns a context that ends with errOrphan after the process that started this one has ended, and a
// function that releases it. claude ends its hooks, but not when it is killed: such a hook would keep the place of the
// next one, when the session is opened again, and not ring that one.
func untilOrphaned(ctx context.Context, log *slog.Logger) (context.Context, func()) {
	parent := os.Getppid()
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer recovery.Handle(log, "watching the session of a hook", func(p *recovery.Panic) { cancel(p) })
		defer close(done)
		tick := time.NewTicker(parentLook)
		defer tick.Stop()
		for os.Getppid() == parent {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
		cancel(errOrphan)
	}()
	return ctx, func() {
		cancel(nil)
		<-done
	}
}

// rewakeFailed returns an error that does not begin a turn, as the exit code of a wrong usage would.
func rewakeFailed(err error) error { return command.Errorf(command.ExitFailed, "", "%w", err) }

// hookSession returns the id of the session that has started this hook, from its environment or from the object that
// claude writes to a hook, and its permission mode, "" if that is not known.
func hookSession(con *command.Console) (id, mode string) {
	var in struct {
		Session string `json:"session_id"`
		Mode    string `json:"permission_mode"`
	}
	if json.NewDecoder(io.LimitReader(con.Stdin, 1<<20)).Decode(&in) != nil { // a person runs the command
		return con.Env("CLAUDE_CODE_SESSION_ID"), ""
	}
	return cmp.Or(con.Env("CLAUDE_CODE_SESSION_ID"), in.Session), in.Mode
}

// standIn waits until no MCP server rings the session, and takes its place.
func standIn(ctx context.Context, dir bell.Listeners, l bell.Listener) (*bell.Listening, error) {
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		entry, err := dir.Add(l)
		if !errors.Is(err, bell.ErrListening) {
			return entry, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

func closeEntry(x *bell.Listening, log *slog.Logger) {
	if err := x.Close(); err != nil {
		log.Warn("the session is still listed as a listener", "error", err)
	}
}

// hookBell rings by the end of this process.
type hookBell struct{ text string }

var errRung = errors.New("the session was rung")

// Policy returns the pauses between two hooks that begin a turn.
func (b *hookBell) Policy() retry.Policy {
	return retry.Policy{First: 30 * time.Second, Factor: 2, Most: 10 * time.Minute}
}

// Ring keeps the text for the end of the process.
func (b *hookBell) Ring(_ context.Context, text string) error {
	b.text = text
	return nil
}

// rewakeWhenDue rings once, and keeps the state for the hook of the next turn.
func rewakeWhenDue(
	ctx context.Context, con *command.Console, thread string, hook *bell.Listening, start bell.State,
) error {
	ctx, rung := context.WithCancelCause(ctx)
	defer rung(nil)
	b := &hookBell{}
	r := bell.Ringer{Name: thread, Bell: b, Start: start,
		Inbox: &remoteInbox{thread: thread, lasting: isRefusal,
			dial: func() (*client.Client, error) { return connectQuietly(con) }},
		Note: func(s bell.State, _ error) {
			if err := hook.Keep(s); err != nil {
				con.Infof("the rings are not counted: %v", err)
			}
			if b.text != "" {
				rung(errRung)
			}
		}}
	err := r.Run(ctx)
	if !errors.Is(err, errRung) {
		return rewakeFailed(err)
	}
	con.Infof("%s", b.text)
	return &command.PrintedError{Code: exitRewake, Reason: b.text}
}
