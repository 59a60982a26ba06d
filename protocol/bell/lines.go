package bell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"mailroom/internal/recovery"
	"mailroom/internal/retry"
)

// Lines rings through a plug-in that runs inside the program of the session. The plug-in reads and writes one JSON
// object a line: it gets a [LineRing], and answers with a [LineSession] that has Rung or Error.
type Lines struct {
	Session string
	// Out is the way to the plug-in.
	Out io.Writer
	// Answers gets what the plug-in has answered.
	Answers <-chan LineSession
	Log     *slog.Logger // nil: slog's default logger

	rings   int        // lines that were written
	writing chan error // gets the end of a write that Ring has not waited for; nil: none
}

// LineRing asks a plug-in to begin a turn of its session.
type LineRing struct {
	Session string `json:"session"`
	Text    string `json:"text"`
	Ring    int    `json:"ring"` // its number, from 1
}

// LineSession is a line of a plug-in: the session that its user sees, or the answer to a ring.
type LineSession struct {
	Session string `json:"session"`         // "": none
	Held    string `json:"held,omitempty"`  // why the session takes no message now, as a phrase; "": it takes them
	Rung    bool   `json:"rung,omitempty"`  // the program took the message
	Error   string `json:"error,omitempty"` // the program did not take it
	Ring    int    `json:"ring,omitempty"`  // the ring that it answers; 0: not said
}

// IsAnswer reports whether the line answers a ring.
func (l LineSession) IsAnswer() bool { return l.Rung || l.Error != "" }

// Policy returns the pauses after rings.
func (l *Lines) Policy() retry.Policy { return unanswered() }

// linesTimeout bounds the write of a ring and the answer to it, together.
const linesTimeout = 10 * time.Second

// Errors of a plug-in that is late. It may answer the next ring. A plug-in that has ended is [ErrGone].
var (
	errUnread     = errors.New("the plug-in does not read its lines")
	errUnanswered = errors.New("the plug-in does not answer")
)

// Ring writes a line and waits for its answer.
func (l *Lines) Ring(ctx context.Context, text string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, linesTimeout, errUnanswered)
	defer cancel()
	if err := l.write(ctx, text); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case a := <-l.Answers:
			switch {
			case a.Session != l.Session, a.Ring != 0 && a.Ring != l.rings: // of a ring before
			case a.Rung:
				return nil
			default:
				return errors.New(a.Error)
			}
		}
	}
}

// write writes the next line. A write to a full pipe does not end with ctx, so it has a goroutine, which ends with the
// write or with the process. No other write begins before that.
func (l *Lines) write(ctx context.Context, text string) error {
	if l.writing != nil {
		if err := l.written(ctx); err != nil {
			return err
		}
	}
	for len(l.Answers) > 0 { // late ones, that may not say so
		<-l.Answers
	}
	l.rings++
	line, err := json.Marshal(LineRing{l.Session, text, l.rings})
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	l.writing = done
	go func() {
		defer recovery.Handle(l.Log, "writing to a plug-in", func(p *recovery.Panic) { done <- p })
		_, err := l.Out.Write(append(line, '\n'))
		done <- err
	}()
	return l.written(ctx)
}

// written waits for the end of the write.
func (l *Lines) written(ctx context.Context) error {
	select {
	case err := <-l.writing:
		l.writing = nil
		if err != nil {
			return fmt.Errorf("%w: %w", ErrGone, err)
		}
		return nil
	case <-ctx.Done():
		if err := context.Cause(ctx); !errors.Is(err, errUnanswered) {
			return err
		}
		return errUnread
	}
}
