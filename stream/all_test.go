package stream_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/bus"
	"mailroom/store"
	"mailroom/stream"
)

// allReader is a reader of all threads that reconnects.
type allReader struct {
	*fixture
	slow func() // nil: it is not slow

	mu     sync.Mutex
	events []stream.AllEvent // of all connections
	at     stream.AllCursor

	hangUp func()
}

func seeAll(*mailroom.Thread) bool { return true }

// follow connects after the last cursor.
func (l *allReader) follow() {
	l.t.Helper()
	all, err := l.streams.OpenAll(l.t.Context(), stream.AllQuery{After: l.at, CanSee: seeAll})
	if err != nil {
		l.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(l.t.Context())
	ended := make(chan error, 1)
	go func() {
		defer all.Close()
		ended <- all.Follow(ctx, func(e stream.AllEvent) error {
			if l.slow != nil {
				l.slow()
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			l.events = append(l.events, e)
			if e.Delta == nil {
				l.at = e.Cursor
			}
			return nil
		})
	}()
	l.hangUp = func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			l.t.Errorf("the reader ended with %v", err)
		}
	}
}

func (l *allReader) received() []stream.AllEvent {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.events)
}

func (l *allReader) seqs() (seqs []int64) {
	for _, e := range l.received() {
		if e.Entry != nil {
			seqs = append(seqs, e.Entry.Seq)
		}
	}
	return seqs
}

func TestReadersOfAllThreadsGetEachEntryOnceUnderAnyFaultOfTheBus(t *testing.T) {
	seeds := []uint64{*seedFlag}
	for len(seeds) < 8 && *seedFlag == 0 {
		seeds = append(seeds, rand.Uint64())
	}
	for _, seed := range seeds {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { chaosOfAll(t, seed) })
		})
	}
}

func chaosOfAll(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	d := newFixture(t)
	m := &faultyBus{rng: rng, bus: d.bus}
	d.publish = m.publish
	var lives []*allReader
	for i := range 4 {
		l := &allReader{fixture: d}
		if i%2 == 1 {
			pace := rand.New(rand.NewPCG(seed, uint64(i)))
			l.slow = func() { <-time.After(time.Duration(pace.IntN(30)) * time.Millisecond) }
		}
		l.follow()
		lives = append(lives, l)
	}
	synctest.Wait()
	<-time.After(time.Second) // the slow readers have their first position
	for range 400 {
		d.randomStep(rng)
		switch rng.IntN(12) {
		case 0:
			synctest.Wait()
		case 1:
			<-time.After(time.Duration(rng.IntN(400)) * time.Millisecond)
		case 2:
			l := lives[rng.IntN(len(lives))]
			l.hangUp()
			l.follow()
		}
	}
	<-time.After(time.Minute)
	for i, l := range lives {
		l.hangUp()
		if diff := cmp.Diff(suffix(d.log(""), 0), l.seqs()); diff != "" {
			t.Errorf("reader %d: entries over all its connections (-want +got):\n%s", i, diff)
		}
	}
}

// holdingStore returns no entry while it holds them back, as a store does whose oldest transaction has
// not ended.
type holdingStore struct {
	store.Store
	held func() bool
}

func (s *holdingStore) View(ctx context.Context, f func(store.Reader) error) error {
	return s.Store.View(ctx, func(r store.Reader) error { return f(holdingReader{r, s}) })
}

type holdingReader struct {
	store.Reader
	store *holdingStore
}

func (r holdingReader) Entries(q store.EntryQuery) ([]mailroom.Entry, error) {
	found, err := r.Reader.Entries(q)
	if q.All == nil || len(found) == 0 || !r.store.held() {
		return found, err
	}
	q.All.Pending, q.All.Positions, q.All.End = true, nil, q.All.After
	return nil, err
}

func TestEntriesThatTheStoreHoldsBackArriveSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFixture(t)
		until := time.Now()
		d.streams = stream.New(&holdingStore{Store: d.store, held: func() bool { return time.Now().Before(until) }}, d.bus)
		l := &allReader{fixture: d}
		l.follow()
		defer func() { l.hangUp() }()
		synctest.Wait()
		for _, held := range []time.Duration{3 * time.Millisecond, 100 * time.Millisecond, 5 * time.Second} {
			from, had := time.Now(), len(l.seqs())
			until = from.Add(held)
			d.submit() // whose notice comes while the entry is held back
			for len(l.seqs()) == had {
				<-time.After(time.Millisecond)
			}
			if late := time.Since(until); late > min(2*held, time.Second)+10*time.Millisecond {
				t.Errorf("held back for %v, the entries arrived %v later", held, late)
			}
			<-time.After(2 * time.Second)
		}
	})
}

func TestALostNoticeDelaysAReaderOfAllThreadsByASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFixture(t)
		d.publish = func(bus.Notice) {}
		l := &allReader{fixture: d}
		l.follow()
		defer func() { l.hangUp() }()
		synctest.Wait()
		d.submit()
		<-time.After(time.Second + time.Millisecond)
		synctest.Wait()
		if got := l.seqs(); len(got) != 2 {
			t.Errorf("got entries %v after a second, want two", got)
		}
	})
}

// A reader that sees little learns how far it has read, so that it does not read all of it again.
func TestAReaderOfHiddenThreadsGetsItsPosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFixture(t)
		all, err := d.streams.OpenAll(t.Context(), stream.AllQuery{CanSee: func(*mailroom.Thread) bool { return false }})
		if err != nil {
			t.Fatal(err)
		}
		defer all.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go func() {
			for range 20 {
				<-time.After(time.Second)
				d.submit()
			}
		}()
		var positions []stream.AllCursor
		if err := all.Follow(ctx, func(e stream.AllEvent) error {
			if e.Entry != nil || e.Delta != nil || e.Gap {
				t.Errorf("got the event %+v of a hidden thread", e)
			}
			positions = append(positions, e.Cursor)
			return nil
		}); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if len(positions) < 3 || len(positions) > 5 || positions[len(positions)-1] != all.Cursor() {
			t.Errorf("got the positions %v in a minute, want about one every ten seconds, up to %v", positions, all.Cursor())
		}
	})
}

func TestAllCursorRoundTrips(t *testing.T) {
	for _, c := range []stream.AllCursor{
		{Order: "0123456789ab"},
		{Order: "zzzzzzzzzzzz", Position: store.Position{Commit: 1<<63 - 1, Thread: 1<<63 - 1, Seq: 1<<63 - 1}},
	} {
		got, err := stream.ParseAllCursor(c.String())
		if err != nil || got != c || len(c.String()) > 54 {
			t.Errorf("%v is %s, which reads back as %v, %v", c, c, got, err)
		}
	}
	for _, s := range []string{
		"", "1", "1:2", "0123456789ab", "0123456789ab-1-2", "0123456789ab-1-2-3-4", "0123456789ab-1--3", "0123456789ab-1-2-",
		"0123456789a-1-2-3",
		"0123456789aB-1-2-3", "0123456789ab-01-2-3", "0123456789ab-A-2-3", "0123456789ab-+1-2-3",
		"0123456789ab-1-2-zzzzzzzzzzzzzz", strings.Repeat("1", 1000),
	} {
		if got, err := stream.ParseAllCursor(s); mailroom.CodeOf(err) != mailroom.CodeInvalid || len(err.Error()) > 200 {
			t.Errorf("%q is %v, %v; want a short error of code invalid", s, got, err)
		}
	}
}

func FuzzAllCursor(f *testing.F) {
	for _, s := range []string{"", "0123456789ab-1-2-3", "0123456789ab-zz-0-1", "0123456789ab-01-2-3",
		"0123456789ab--1-2-3", "٣"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := stream.ParseAllCursor(s)
		if err != nil {
			return
		}
		if p := c.Position; c.String() != s || p.Commit < 0 || p.Thread < 0 || p.Seq < 0 {
			t.Errorf("%q is %+v, which is written %q", s, c, c)
		}
	})
}
