package engine_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom"
)

// lines collects the log of an engine.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// A line for each run that simply completes would hide the others.
func TestOnlyAFirstAttemptThatCompletesIsLoggedAtDebug(t *testing.T) {
	everywhere(t, func(h *fixture) {
		log := &lines{}
		o := serving(func(ctx context.Context, s mailroom.Session) error {
			if s.Run().Thread == "again" && s.Run().Attempt == 1 {
				return errors.New("not yet")
			}
			return nil
		})
		o.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		h.start(o)
		once, again := h.send("once", "x"), h.send("again", "x")
		h.wait(time.Minute)
		h.status(once.Run, mailroom.StatusCompleted)
		h.status(again.Run, mailroom.StatusCompleted)

		log.mu.Lock()
		defer log.mu.Unlock()
		for _, want := range []string{
			`level=DEBUG msg="attempt ended" run=` + once.Run + " thread=once agent=a attempt=1 outcome=complete",
			`level=INFO msg="attempt ended" run=` + again.Run + " thread=again agent=a attempt=1 outcome=fail",
			`level=INFO msg="attempt ended" run=` + again.Run + " thread=again agent=a attempt=2 outcome=complete",
		} {
			if !strings.Contains(log.text.String(), want) {
				h.t.Errorf("no line has %s:\n%s", want, log.text.String())
			}
		}
	})
}
