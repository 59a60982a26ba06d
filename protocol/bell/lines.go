package bell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

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
}

// LineRing asks a plug-in to begin a turn of its session.
type LineRing struct {
	Session string `json:"session"`
	Text    string `json:"text"`
}

// LineSession is a line of a plug-in: the session that its user sees, or the answer to a ring.
type LineSession struct {
	Session string `json:"session"`         // "": none
	Held    string `json:"held,omitempty"`  // why the session takes no message now, as a phrase; "": it takes them
	Rung    bool   `json:"rung,omitempty"`  // the program took the message
	Error   string `json:"error,omitempty"` // the program did not take it
}

// IsAnswer reports whether the line answers a ring.
func (l LineSession) IsAnswer() bool { return l.Rung || l.Error != "" }

// Policy returns the pauses after rings.
func (l *Lines) Policy() retry.Policy { return unanswered() }

// linesTimeout bounds the answer to a ring.
const linesTimeout = 10 * time.Second

// Ring writes a line and waits for its answer.
func (l *Lines) Ring(ctx context.Context, text string) error {
	line, err := json.Marshal(LineRing{l.Session, text})
	if err != nil {
		return err
	}
	if _, err := l.Out.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("%w: %w", ErrGone, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, linesTimeout, errors.New("the plug-in does not answer"))
	defer cancel()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case a := <-l.Answers:
			switch {
			case a.Session != l.Session: // of a ring before
			case a.Rung:
				return nil
			default:
				return errors.New(a.Error)
			}
		}
	}
}
