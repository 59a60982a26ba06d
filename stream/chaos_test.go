package stream_test

import (
	"flag"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom/bus"
	"mailroom/stream"
)

// faultyBus is a bus that loses, duplicates, delays and reorders notices.
type faultyBus struct {
	rng  *rand.Rand
	bus  *bus.Bus
	late []bus.Notice
}

func (m *faultyBus) publish(n bus.Notice) {
	switch p := m.rng.IntN(10); {
	case p < 2: // lost
	case p < 4:
		m.bus.Publish(n)
		m.bus.Publish(n)
	case p < 7:
		m.late = append(m.late, n)
	default:
		m.bus.Publish(n)
	}
	for len(m.late) > 0 && m.rng.IntN(4) == 0 {
		i := m.rng.IntN(len(m.late))
		m.bus.Publish(m.late[i])
		m.late = slices.Delete(m.late, i, i+1)
	}
}

// randomStep does one random operation that is currently possible.
func (d *fixture) randomStep(rng *rand.Rand) {
	if d.claim.Run == "" {
		if rng.IntN(3) == 0 || d.runs == 0 {
			d.submit()
		}
		d.tryStart()
		return
	}
	texts := []string{"a", "é", "€", "😀", "words ", "mixed €uro "}
	switch p := rng.IntN(40); {
	case p < 24:
		d.stream(texts[rng.IntN(len(texts))])
	case p < 30:
		d.flush()
	case p < 33:
		d.append()
	case p < 35:
		d.submit()
	case p < 36:
		d.release()
	case p < 37:
		d.expire()
	case p < 38:
		d.fail()
	default:
		d.complete()
	}
}

// connection is a reader that reconnects; entries are those of all its connections.
type connection struct {
	*reader
	q       stream.Query
	entries []int64
}

// reconnect closes the connection and reconnects with the cursor of the last event.
func (l *connection) reconnect() {
	l.close()
	l.q.After = l.cursorNow()
	l.follow(l.q)
}

func (l *connection) close() {
	l.hangUp()
	l.check()
	l.entries = append(l.entries, l.seqs()...)
}

var seedFlag = flag.Uint64("seed", 0, "run only this seed of the test with a faulty bus")

func TestReadersGetExactlyTheLogUnderAnyFaultOfTheBus(t *testing.T) {
	seeds := []uint64{*seedFlag}
	for len(seeds) < 12 && *seedFlag == 0 {
		seeds = append(seeds, rand.Uint64())
	}
	for _, seed := range seeds {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { chaos(t, seed) })
		})
	}
}

func chaos(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	d := newFixture(t)
	m := &faultyBus{rng: rng, bus: d.bus}
	d.publish = m.publish
	first := d.submit()

	var lives []*connection
	for i := range 6 {
		l := &connection{reader: &reader{fixture: d}}
		if i >= 4 {
			l.q.Run = first
		}
		if i%2 == 1 { // slow enough that its subscription overflows at times
			pace := rand.New(rand.NewPCG(seed, uint64(i)))
			l.slow = func() { <-time.After(time.Duration(pace.IntN(30)) * time.Millisecond) }
		}
		l.follow(l.q)
		lives = append(lives, l)
	}
	synctest.Wait()

	for range 400 {
		d.randomStep(rng)
		switch rng.IntN(12) {
		case 0:
			synctest.Wait()
		case 1:
			<-time.After(time.Duration(rng.IntN(400)) * time.Millisecond)
		case 2:
			lives[rng.IntN(len(lives))].reconnect()
			synctest.Wait() // the reader has processed everything
		}
	}
	if d.claim.Run != "" {
		d.flush()
	}
	<-time.After(time.Minute) // for the slow readers as well
	synctest.Wait()

	for i, l := range lives {
		if d.claim.Run != "" && (l.q.Run == "" || l.q.Run == d.claim.Run) {
			shown := l.have
			for _, e := range l.received() {
				if e.Delta != nil && e.Delta.Message == d.open.ID {
					shown = e.Delta.Offset + len(e.Delta.Text)
				}
			}
			if d.open.ID != "" && shown != len(d.open.Text) {
				t.Errorf("reader %d has %d bytes of the open message, want %d", i, shown, len(d.open.Text))
			}
		}
		l.close()
		if diff := cmp.Diff(suffix(d.log(l.q.Run), 0), l.entries); diff != "" {
			t.Errorf("reader %d: entries over all its connections (-want +got):\n%s", i, diff)
		}
	}
}

// tryStart claims a due run, if there is one.
func (d *fixture) tryStart() {
	if !d.due() {
		<-time.After(time.Second) // the run of a lost claim may be delayed
	}
	if d.due() {
		d.start()
	}
}
