package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"mailroom/app/command"
	"mailroom/internal/recovery"
	"mailroom/protocol/bell"
)

// maxPluginLine bounds a line of a plug-in, in bytes.
const maxPluginLine = 64 << 10

// pluginRinger rings the session that a plug-in names: the plug-in has started this process.
type pluginRinger struct {
	con     *command.Console
	thread  string // the inbox
	harness string
	log     *slog.Logger
	dir     bell.Listeners

	stop    context.CancelCauseFunc // ends the ringing of the present session; nil: none
	ended   sync.WaitGroup          // the ringing
	session string                  // the present one
	answers chan bell.LineSession   // of the present session
	held    chan string             // of the present session
}

// ringPlugin is `mailroom inbox wait --lines`: it rings until the plug-in closes the standard input, as its end does.
func ringPlugin(ctx context.Context, con *command.Console, thread, harness string) error {
	if con.Env("MAILROOM_THREAD") != "" { // a run of Mailroom
		return nil
	}
	dir, err := bell.ListenersFolder(con.Env)
	if err != nil {
		return command.Errorf(command.ExitFailed, "", "%w", err)
	}
	r := &pluginRinger{con: con, thread: thread, harness: harness, dir: dir,
		log: slog.New(slog.NewTextHandler(con.Stderr, nil))}
	defer r.change(ctx, bell.LineSession{})
	lines, failed := make(chan bell.LineSession), make(chan error, 1)
	go func() { // it ends with the process: a read of the standard input cannot be ended
		defer recovery.Handle(r.log, "reading lines of a plug-in", func(p *recovery.Panic) { failed <- p })
		failed <- readLines(ctx, con, lines)
	}()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-failed:
			return err
		case line := <-lines:
			switch {
			case line.IsAnswer() && line.Session == r.session:
				select {
				case <-r.answers: // late: no ring has waited for it
				default:
				}
				r.answers <- line // it has room for one
			case !line.IsAnswer():
				r.change(ctx, line)
			}
		}
	}
}

// readLines passes on the lines of the standard input until its end.
func readLines(ctx context.Context, con *command.Console, lines chan<- bell.LineSession) error {
	in := bufio.NewScanner(con.Stdin)
	for in.Buffer(nil, maxPluginLine); in.Scan(); {
		var line bell.LineSession
		if err := json.Unmarshal(in.Bytes(), &line); err != nil {
			return command.Errorf(command.ExitUsage, "", "a line of the plug-in is no object: %w", err)
		}
		select {
		case lines <- line:
		case <-ctx.Done():
			return nil
		}
	}
	if err := in.Err(); err != nil {
		return command.Errorf(command.ExitFailed, "", "read the plug-in: %w", err)
	}
	return nil
}

// change rings another session, or passes on why the session takes no message now.
func (r *pluginRinger) change(ctx context.Context, line bell.LineSession) {
	if line.Session != r.session {
		if r.stop != nil {
			r.stop(nil)
			r.ended.Wait()
			r.stop = nil
		}
		if r.session = line.Session; r.session == "" {
			return
		}
		r.start(ctx, line.Held)
		return
	}
	if r.stop == nil {
		return
	}
	select {
	case <-r.held: // not taken yet
	default:
	}
	r.held <- line.Held // it has room for one
}

// start rings the present session.
func (r *pluginRinger) start(ctx context.Context, held string) {
	ctx, r.stop = context.WithCancelCause(ctx)
	r.answers, r.held = make(chan bell.LineSession, 1), make(chan string, 1)
	r.held <- held
	lines := &bell.Lines{Session: r.session, Out: r.con.Stdout, Answers: r.answers, Log: r.log}
	s := session{lines, r.harness, r.session,
		fmt.Sprint(os.Getpid()), r.held, ""} // one process of this command for each instance of the program
	ringer := &sessionRinger{con: r.con, server: &clientDialer{con: r.con}, thread: r.thread, dir: r.dir, log: r.log,
		sessions: func(string) []session { return []session{s} }}
	r.ended.Go(func() {
		defer recovery.Log(r.log, "ringing a session through a plug-in")
		ringer.run(ctx)
	})
}
