package stream_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"mailroom/stream"
	"mailroom/stream/turn"
)

// turnPage is a program that shows the turns of a thread. All that it keeps when its server ends is what it has shown,
// and the number of the last event.
type turnPage struct {
	t     *testing.T
	at    int64
	texts map[string]string
}

// read folds what one connection received from the start of the thread, and shows what is new.
func (p *turnPage) read(events []stream.Event) *turn.State {
	p.t.Helper()
	state := turn.After(p.at)
	for _, e := range events {
		var fresh []turn.Event
		switch {
		case e.Entry != nil:
			fresh = state.Apply(*e.Entry)
		case e.Delta != nil:
			fresh = state.ApplyDelta(*e.Delta)
		}
		for _, e := range fresh {
			if e.Cursor && e.Number <= p.at || !e.Cursor && e.Number != p.at {
				p.t.Errorf("%s %s has the number %d after %d", e.Type, e.Part.Key, e.Number, p.at)
			}
			p.at = e.Number
			switch {
			case e.Type == turn.PartGrew:
				if e.Offset != len(p.texts[e.Part.Key]) {
					p.t.Errorf("%s grows at %d; %d bytes are shown", e.Part.Key, e.Offset, len(p.texts[e.Part.Key]))
				}
				p.texts[e.Part.Key] += e.Text
			case e.Type == turn.PartChanged:
				p.texts[e.Part.Key] = e.Part.Text
			}
		}
	}
	return state
}

// TestTheTurnsOfAThreadOutliveEveryLostConnection shows the turns of random threads, over a bus that loses, repeats and
// delays notices. The program starts again after every few steps with the number of the last event, and no other state.
// In the end it shows each text of the log, once and whole.
func TestTheTurnsOfAThreadOutliveEveryLostConnection(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			d := newFixture(t)
			d.submit()
			d.publish = (&faultyBus{rng: rng, bus: d.bus}).publish
			page := &turnPage{t: t, texts: map[string]string{}}
			for range 12 {
				r := d.follow(stream.Query{})
				for range 1 + rng.IntN(12) {
					d.randomStep(rng)
					if rng.IntN(3) == 0 {
						synctest.Wait()
					}
				}
				synctest.Wait()
				r.hangUp()
				page.read(r.received())
			}
			r := d.follow(stream.Query{})
			synctest.Wait()
			r.hangUp()
			state, texts := page.read(r.received()), 0
			for _, turns := range state.Turns() {
				for _, p := range turns.Parts {
					if p.Kind == turn.KindText {
						texts++
						wantEqual(t, p.Key, p.Text, page.texts[p.Key])
					}
				}
			}
			if len(state.Turns()) == 0 || texts == 0 && seed == 0 {
				t.Errorf("%d turns with %d texts are shown", len(state.Turns()), texts)
			}
		})
	}
}
