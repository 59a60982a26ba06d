package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mailroom"
)

// world runs a schedule as package schedule does: each handling is a transaction that may be lost with a crash,
// and messages of the schedule to itself come when they are due, in any order with what else happens.
type world struct {
	t     *rapid.T
	now   time.Time
	most  time.Time // the latest that now has been
	state *State
	ticks []time.Time              // messages on their way
	runs  map[string]*mailroom.Run // that exist, by id
	sent  map[time.Time]int
	skips map[time.Time]Reason // by nominal time
	model []time.Time          // occurrences up to now that must be accounted for
	from  time.Time            // since when the model has the occurrences of the spec
	next  int
}

// handle is one transaction. A crash before its commit changes nothing.
func (w *world) handle(f func(s *State) Moves) {
	if rapid.IntRange(0, 9).Draw(w.t, "crash") == 0 {
		return
	}
	raw, err := json.Marshal(w.state)
	if err != nil {
		w.t.Fatal(err)
	}
	if len(raw) > mailroom.MaxState {
		w.t.Fatalf("the state has %d bytes", len(raw))
	}
	s := &State{}
	if err := json.Unmarshal(raw, s); err != nil {
		w.t.Fatal(err)
	}
	s.Account(w.runs, w.now)
	for _, f := range s.Open {
		if run := w.runs[f.Run]; run == nil || run.Status.Finished() {
			w.t.Fatalf("the schedule waits for %s, which has ended", f.Run)
		}
	}
	m := f(s)
	for len(s.Due) > 0 && rapid.IntRange(0, 7).Draw(w.t, "crash among several") != 0 {
		fire := s.Due[0]
		if !fire.Manual && w.sent[fire.Nominal] > 0 {
			w.t.Fatalf("%s was sent twice", fire.Nominal)
		}
		if rapid.IntRange(0, 7).Draw(w.t, "refused") == 0 {
			refused := s.Refuse(SkipRefused, "no such agent", w.now)
			m.Skips = append(m.Skips, refused.Skips...)
			continue
		}
		w.next++
		s.Accept(fmt.Sprint("run-", w.next))
		w.runs[fmt.Sprint("run-", w.next)] = &mailroom.Run{Status: mailroom.StatusQueued}
		if !fire.Manual {
			w.sent[fire.Nominal]++
		}
	}
	w.log(m.Skips)
	if !m.Tick.IsZero() {
		w.ticks = append(w.ticks, m.Tick)
	}
	w.state = s
}

func (w *world) log(skips []Skip) {
	for _, k := range skips {
		if k.Manual {
			continue
		}
		n := 0
		for _, at := range w.occurrences() {
			if at.Before(k.First) || at.After(k.Last) {
				continue
			}
			if w.skips[at] != "" && k.Reason != SkipRefused {
				w.t.Fatalf("%s was skipped twice: %s and %s", at, w.skips[at], k.Reason)
			}
			w.skips[at] = k.Reason
			n++
		}
		if n < k.Count {
			w.t.Fatalf("a skip counts %d of %d: %+v", k.Count, n, k)
		}
	}
}

// occurrences returns all times that the schedule has had, up to the latest that the clock has shown.
func (w *world) occurrences() []time.Time {
	if w.now.After(w.most) {
		w.most = w.now
	}
	all := append([]time.Time{}, w.model...)
	times, err := w.state.Spec.times()
	if err != nil {
		w.t.Fatal(err)
	}
	for at := times.Next(w.from); !at.IsZero() && !at.After(w.most); at = times.Next(at) {
		all = append(all, at)
	}
	return all
}

func anySpec(t *rapid.T, now time.Time) Spec {
	s := Spec{Text: "go", Thread: "t"}
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0:
		s.Every = time.Duration(rapid.IntRange(1, 90).Draw(t, "every")) * time.Minute
	case 1:
		s.At = now.Add(time.Duration(rapid.IntRange(1, 300).Draw(t, "at")) * time.Minute)
	default:
		s.Cron = rapid.SampledFrom([]string{"*/7 * * * *", "0 * * * *", "30 1,2 * * *", "*/20 2-4 * * *"}).Draw(t, "cron")
		s.Zone = rapid.SampledFrom([]string{"America/New_York", "Europe/London", "UTC"}).Draw(t, "zone")
	}
	s.Jitter = time.Duration(rapid.IntRange(0, 3).Draw(t, "jitter")) * time.Minute
	s.Overlap = rapid.SampledFrom([]Overlap{overlapSkip, OverlapOne, overlapAll}).Draw(t, "overlap")
	s.CatchUp = rapid.SampledFrom([]CatchUp{catchUpOne, catchUpNone, catchUpAll}).Draw(t, "catch up")
	s.Window = time.Duration(rapid.IntRange(1, 100).Draw(t, "window")) * time.Minute
	s.PauseAfter = rapid.IntRange(0, 4).Draw(t, "pause after")
	s.Quiet = rapid.SampledFrom([]string{"", "", "01:30-02:30", "23:00-07:00", "12:00-11:00"}).Draw(t, "quiet")
	if s.Check(now) != nil {
		s.Quiet = "" // it has all times
	}
	if err := s.Check(now); err != nil {
		t.Fatal(err)
	}
	s.anchor(nil, now)
	return s
}

// TestEachOccurrenceIsSentOnceOrSkippedWithAReason plays random histories: the clock goes forward, also past the
// windows, and back; messages come early and late; handlings are lost in a crash; runs end, fail and are forgotten; the
// schedule is changed, paused, resumed and triggered.
func TestEachOccurrenceIsSentOnceOrSkippedWithAReason(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := time.Date(2026, 3, 7, 20, 0, 0, 0, time.UTC)
		w := &world{t: t, now: start, from: start, sent: map[time.Time]int{},
			skips: map[time.Time]Reason{}, runs: map[string]*mailroom.Run{}}
		w.state = newState("schedule:x", "source", anySpec(t, start), start)
		for range 100 { // the transaction that makes it
			if len(w.ticks) == 0 {
				w.handle(func(s *State) Moves { return s.schedule(w.now) })
			}
		}
		t.Repeat(w.actions())
	})
}

func (w *world) actions() map[string]func(*rapid.T) {
	forward := func(name string, unit time.Duration) func(*rapid.T) {
		return func(t *rapid.T) { w.now = w.now.Add(time.Duration(rapid.IntRange(1, 30).Draw(t, name)) * unit) }
	}
	control := func(f func(s *State) Moves) func(*rapid.T) { return func(*rapid.T) { w.handle(f) } }
	return map[string]func(*rapid.T){
		"":       func(*rapid.T) { w.check() },
		"wait":   forward("minutes", time.Minute),
		"outage": forward("hours", time.Hour),
		"clock back": func(t *rapid.T) {
			if at := w.now.Add(-time.Duration(rapid.IntRange(1, 90).Draw(t, "back")) * time.Minute); at.After(w.from) {
				w.now = at
			}
		},
		"tick":    func(*rapid.T) { w.tick() },
		"end":     func(*rapid.T) { w.end() },
		"set":     func(*rapid.T) { w.set() },
		"pause":   control(func(s *State) Moves { s.Pause("ann", "", w.now); return Moves{} }),
		"resume":  control(func(s *State) Moves { return s.resume("source", w.now) }),
		"trigger": control(func(s *State) Moves { m, _ := s.trigger(w.now); return m }),
	}
}

// tick handles a message of the schedule to itself that is due. It stays if the handling is lost.
func (w *world) tick() {
	for i, at := range w.ticks {
		if !at.After(w.now) {
			before := w.state
			w.handle(func(s *State) Moves { return s.Advance(w.now) })
			if w.state != before {
				w.ticks = append(w.ticks[:i:i], w.ticks[i+1:]...)
			}
			return
		}
	}
}

// end ends an open run. The schedule may be told at once; it sees the end at its next message in any case.
func (w *world) end() {
	if len(w.runs) == 0 {
		return
	}
	run := rapid.SampledFrom(slices.Sorted(maps.Keys(w.runs))).Draw(w.t, "run")
	status := rapid.SampledFrom([]mailroom.Status{mailroom.StatusCompleted, mailroom.StatusFailed,
		mailroom.StatusCancelled, "deleted"}).Draw(w.t, "status")
	w.runs[run].Status, w.runs[run].Error = status, &mailroom.RunError{Message: "because"}
	if status == "deleted" {
		delete(w.runs, run)
	}
	if rapid.Bool().Draw(w.t, "told") {
		w.handle(func(s *State) Moves { return s.Advance(w.now) })
	}
}

// set changes the schedule. The model keeps the occurrences of the former one.
func (w *world) set() {
	spec, before, all := anySpec(w.t, w.now), w.state, w.occurrences()
	if !spec.At.IsZero() && w.now.Before(w.state.Since) {
		return // the clock has gone back: one time counts from then on, which the model does not know
	}
	w.handle(func(s *State) Moves { return s.set("source", spec, w.now, w.now) })
	if w.state != before {
		w.from = w.state.Since
		w.model = slices.DeleteFunc(all, func(at time.Time) bool { return at.After(w.from) })
	}
}

// check compares the state with the model.
func (w *world) check() {
	for _, at := range w.occurrences() {
		sent, skipped, waits := w.sent[at], w.skips[at] != "", at.Equal(w.state.Buffered) || w.isDue(at)
		switch due := !at.After(w.state.Since); {
		case sent > 0 && skipped:
			w.t.Fatalf("%s was sent and skipped (%s)", at, w.skips[at])
		case due && sent == 0 && !skipped && !waits:
			w.t.Fatalf("%s was lost; accounted for up to %s", at, w.state.Since)
		case !due && sent+len(w.skips[at]) > 0:
			w.t.Fatalf("%s was handled before its time", at)
		}
	}
	if len(w.state.Open) > maxOpen {
		w.t.Fatalf("%d runs are open", len(w.state.Open))
	}
	at := w.state.NextFire()
	if at.IsZero() {
		return
	}
	for _, tick := range w.ticks {
		if !tick.After(at) {
			return
		}
	}
	w.t.Fatalf("the next occurrence is at %s, and no message comes then: %v", at, w.ticks)
}

func (w *world) isDue(at time.Time) bool {
	return slices.ContainsFunc(w.state.Due, func(f Fire) bool { return !f.Manual && f.Nominal.Equal(at) })
}

func TestTheStateStaysSmall(t *testing.T) {
	now := time.Date(2026, 3, 7, 20, 0, 0, 0, time.UTC)
	spec := Spec{Every: time.Minute, Thread: strings.Repeat("ü", mailroom.MaxThreadID), Overlap: overlapAll,
		Text: strings.Repeat("a", 7000), CatchUp: catchUpAll}
	if err := spec.Check(now); err != nil {
		t.Fatal(err)
	}
	s := newState("schedule:x", "source", spec, now)
	for n := range maxOpen * 2 {
		now = now.Add(time.Minute)
		for s.Advance(now); len(s.Due) > 0; {
			s.Accept(fmt.Sprintf("%036d", n))
		}
		s.keep(Result{Nominal: now, Reason: SkipRefused, Error: strings.Repeat("\x01", 5000)})
	}
	raw, err := json.Marshal(s)
	if err != nil || len(raw) > mailroom.MaxState {
		t.Errorf("%d bytes, %v", len(raw), err)
	}
}

func TestATimeThatPassesBeforeTheCommandIsCarriedOutCounts(t *testing.T) {
	accepted := time.Date(2026, 3, 7, 20, 0, 0, 0, time.UTC)
	spec := Spec{At: accepted.Add(30 * time.Second), Text: "go"}
	c := Command{Op: OpSet, Spec: &spec}
	s, _, why := Do(nil, "schedule:admin:x", c, accepted, accepted.Add(time.Minute))
	if why != "" || len(s.Due) != 1 {
		t.Errorf("a new schedule has %+v due: %s", s.Due, why)
	}
	s = newState("schedule:admin:x", "", Spec{Every: time.Hour, Window: time.Hour}, accepted)
	s, _, why = Do(s, s.ID, c, accepted, accepted.Add(time.Minute))
	if why != "" || len(s.Due) != 1 {
		t.Errorf("a changed schedule has %+v due: %s", s.Due, why)
	}
}
