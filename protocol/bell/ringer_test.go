package bell_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mailroom/internal/retry"
	"mailroom/protocol/bell"
)

// box is an inbox whose heads the test sends.
type box struct {
	heads   chan string
	waiting atomic.Int64
}

func (b *box) Follow(ctx context.Context, changed func(string)) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case head := <-b.heads:
			changed(head)
		}
	}
}

func (b *box) Waiting(context.Context) (int, error) { return int(b.waiting.Load()), nil }

// recorder is a bell that records when it was rung with what.
type recorder struct {
	begin time.Time

	mu   sync.Mutex // guards the fields below while the ringer runs
	rung []string
	at   []time.Duration
	next []error // of the next rings
}

func (r *recorder) Policy() retry.Policy { return pauses }

func (r *recorder) Ring(_ context.Context, text string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rung, r.at = append(r.rung, text), append(r.at, time.Since(r.begin).Round(time.Second))
	if len(r.next) == 0 {
		return nil
	}
	err := r.next[0]
	r.next = r.next[1:]
	return err
}

// ring runs a ringer while play acts, and returns what it ended with.
func ring(t *testing.T, rec *recorder, play func(b *box)) (err error) {
	t.Helper()
	b := &box{heads: make(chan string)}
	b.waiting.Store(1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	rec.begin = time.Now()
	go func() { ended <- (&bell.Ringer{Name: "mine", Inbox: b, Bell: rec}).Run(ctx) }()
	play(b)
	cancel()
	return <-ended
}

func TestARingerRingsUntilAPopIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := &recorder{}
		err := ring(t, rec, func(b *box) {
			b.heads <- "a"
			synctest.Wait()
			rec.mu.Lock()
			if len(rec.rung) != 1 {
				t.Errorf("%d rings when mail came, want one at once", len(rec.rung))
			}
			rec.mu.Unlock()
			<-time.After(2 * time.Minute) // in virtual time
			b.heads <- ""
			<-time.After(time.Hour)
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the ringer ended with %v", err)
		}
		if len(rec.rung) != 2 || !strings.Contains(rec.rung[1], `1 message waits in your inbox "mine"`) ||
			!strings.Contains(rec.rung[1], "not from your user") || rec.rung[0] == rec.rung[1] {
			t.Errorf("rings: %q at %v, want a second one a minute after the first, and none after the pop", rec.rung, rec.at)
		}
	})
}

func TestARingThatFailsIsTriedAgainAndOneThatIsLostForEverIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := &recorder{next: []error{errors.New("busy"), errors.New("busy"), bell.ErrGone}}
		err := ring(t, rec, func(b *box) {
			b.heads <- "a"
			<-time.After(time.Hour)
		})
		if !errors.Is(err, bell.ErrGone) || len(rec.rung) != 3 || !slices.IsSorted(rec.at) || rec.at[2] > 5*time.Second {
			t.Errorf("rings at %v, ended with %v, want three tries within seconds and the end", rec.at, err)
		}
	})
}

func TestASessionThatIsHeldIsNotRung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec, held := &recorder{begin: time.Now()}, make(chan string, 1)
		b := &box{heads: make(chan string)}
		b.waiting.Store(1)
		ctx, cancel := context.WithCancel(t.Context())
		held <- "it waits for its user"
		ended := make(chan error, 1)
		go func() { ended <- (&bell.Ringer{Name: "mine", Inbox: b, Bell: rec, Held: held}).Run(ctx) }()
		b.heads <- "a"
		<-time.After(time.Hour)
		held <- ""
		<-time.After(time.Second)
		held <- "it waits again"
		<-time.After(time.Hour)
		cancel()
		<-ended
		if want := []time.Duration{time.Hour}; !slices.Equal(rec.at, want) {
			t.Errorf("rings at %v, want %v", rec.at, want)
		}
	})
}

func TestAnInboxWithoutAMessageIsNotRung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := &recorder{}
		_ = ring(t, rec, func(b *box) { // the end is that of the test
			b.waiting.Store(0) // its reader is writing an answer
			b.heads <- "a"
			<-time.After(10 * time.Second)
			b.waiting.Store(3)
			<-time.After(2 * time.Second)
			b.heads <- ""
			synctest.Wait()
		})
		if len(rec.rung) != 1 || !strings.Contains(rec.rung[0], "3 messages wait") {
			t.Errorf("rings: %q, want one, for three messages", rec.rung)
		}
	})
}
