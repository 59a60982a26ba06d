package bell

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// plugin is the other end of [Lines]: it reads lines, if it reads.
type plugin struct {
	t       *testing.T
	lines   *Lines
	in      *io.PipeReader
	answers chan LineSession
}

func newPlugin(t *testing.T) *plugin {
	in, out := io.Pipe()
	answers := make(chan LineSession, 1)
	return &plugin{t, &Lines{Session: "s", Out: out, Answers: answers}, in, answers}
}

// ring rings on a goroutine of its own.
func (p *plugin) ring() <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- p.lines.Ring(p.t.Context(), "mail") }()
	return ended
}

// read reads the next line.
func (p *plugin) read(in *bufio.Reader) (r LineRing) {
	p.t.Helper()
	line, err := in.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &r)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return r
}

func TestALateAnswerOfAPlugInIsNotOfTheNextRing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlugin(t)
		in := bufio.NewReader(p.in)
		first := p.ring()
		p.read(in)
		if err := <-first; !errors.Is(err, errUnanswered) || errors.Is(err, ErrGone) {
			t.Errorf("a ring without an answer: %v", err)
		}
		p.answers <- LineSession{Session: "s", Rung: true} // of a plug-in that says no number
		second := p.ring()
		ring := p.read(in)
		p.answers <- LineSession{Session: "s", Rung: true, Ring: ring.Ring - 1}
		synctest.Wait()
		select {
		case err := <-second:
			t.Fatalf("the late answers ended the next ring: %v", err)
		default:
		}
		p.answers <- LineSession{Session: "s", Error: "busy", Ring: ring.Ring}
		if err := <-second; err == nil || err.Error() != "busy" {
			t.Errorf("the next ring: %v", err)
		}
	})
}

func TestAPlugInThatDoesNotReadIsLateAndNotGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlugin(t)
		began := time.Now()
		for range 3 {
			if err := <-p.ring(); !errors.Is(err, errUnread) || errors.Is(err, ErrGone) {
				t.Errorf("a ring that is not read: %v", err)
			}
		}
		if took := time.Since(began); took != 3*linesTimeout {
			t.Errorf("three rings took %v", took)
		}
		// It reads again: the line that waited, and the one of the next ring.
		in := bufio.NewReader(p.in)
		ended := p.ring()
		if first, next := p.read(in), p.read(in); first.Ring != 1 || next.Ring != 2 {
			t.Errorf("it reads the rings %d and %d", first.Ring, next.Ring)
		}
		p.answers <- LineSession{Session: "s", Rung: true, Ring: 2}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		_ = p.in.CloseWithError(os.ErrClosed) // never fails
		if err := <-p.ring(); !errors.Is(err, ErrGone) {
			t.Errorf("a plug-in that has ended: %v", err)
		}
	})
}
