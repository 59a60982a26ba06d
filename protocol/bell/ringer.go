package bell

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"mailroom/internal/recovery"
)

// inbox is what a [Ringer] asks about an inbox, such as the Inbox of package mcp.
type inbox interface {
	// Follow calls changed with the run of the message at the head, or "": now, and after each change until ctx ends.
	Follow(ctx context.Context, changed func(head string)) error
	// Waiting returns how many messages wait.
	Waiting(ctx context.Context) (int, error)
}

// Ringer rings a bell while mail waits in an inbox.
type Ringer struct {
	Name  string // of the inbox, for notices
	Inbox inbox
	Bell  Bell
	Start State // where a ringer before this one ended
	// Held, if not nil, gets why the session takes no message now, and "" when it takes them again.
	Held <-chan string
	// Note, if not nil, is called with each new state and the error of the last try, by the goroutine of Run.
	Note func(s State, err error)
	Log  *slog.Logger // nil: slog's default logger
}

// ringTimeout bounds one ring, with the question how many messages wait.
const ringTimeout = 15 * time.Second

// Run rings until ctx ends, until the inbox cannot be followed, or until the session is gone ([ErrGone]).
func (r *Ringer) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	heads, ended := make(chan string), make(chan error, 1)
	go func() {
		defer recovery.Handle(r.Log, "following an inbox", func(p *recovery.Panic) { ended <- p })
		ended <- r.Inbox.Follow(ctx, func(head string) {
			select {
			case heads <- head:
			case <-ctx.Done():
			}
		})
	}()
	err := r.loop(ctx, heads, ended)
	cancel(err)
	return err
}

// loop owns the state.
func (r *Ringer) loop(ctx context.Context, heads <-chan string, ended <-chan error) error {
	s, notices := r.Start, r.Start.Rings
	select {
	case s.Held = <-r.Held: // before the first ring
	default:
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Stop()
		due := s.due()
		if !due.IsZero() {
			timer.Reset(time.Until(due))
		}
		var err error
		select {
		case <-ctx.Done():
			<-ended
			return context.Cause(ctx)
		case err := <-ended:
			return err
		case head := <-heads:
			s = s.Changed(head, time.Now())
		case s.Held = <-r.Held:
		case <-timer.C:
			if due.IsZero() { // the first tick of a timer without a time
				continue
			}
			notices++
			if err = r.ring(ctx, notices); err == errNone {
				s.Due, err = time.Now().Add(lookAgain), nil
				continue
			}
			s = s.Tried(err, r.Bell.Policy(), time.Now(), rand.Float64())
		}
		if r.Note != nil {
			r.Note(s, err)
		}
		if s.Gone {
			return err
		}
	}
}

// errNone means that no message waits at this moment.
var errNone = errors.New("no message waits")

// lookAgain is the pause before the next look at an inbox without a message: a reader is writing an answer, or the
// change of the head is on its way.
const lookAgain = time.Second

// ring rings for the n-th time. It returns errNone if no message waits.
func (r *Ringer) ring(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, ringTimeout)
	defer cancel()
	waiting, err := r.Inbox.Waiting(ctx)
	switch {
	case err != nil:
		return err
	case waiting == 0:
		return errNone
	}
	return r.Bell.Ring(ctx, Notice(n, r.Name, waiting))
}
