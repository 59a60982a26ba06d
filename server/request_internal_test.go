package server

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// deadlines is a response that keeps the write deadlines that were set.
type deadlines struct {
	http.ResponseWriter
	set []time.Time
}

func (d *deadlines) SetWriteDeadline(at time.Time) error {
	d.set = append(d.set, at)
	return nil
}

func (d *deadlines) last() time.Duration { return time.Until(d.set[len(d.set)-1]) }

func TestEachPieceOfAnAnswerHasSevenEighthsOfItsTimeAtLeast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 8 * time.Second
		d := &deadlines{ResponseWriter: httptest.NewRecorder()}
		out := newResponse(d, "id", timeout)
		write := func() {
			t.Helper()
			if _, err := out.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		write()
		write()
		if len(d.set) != 1 {
			t.Errorf("%d deadlines for writes that follow each other, want one", len(d.set))
		}
		for range 50 {
			<-time.After(300 * time.Millisecond)
			write()
			if got := d.last(); got < timeout-timeout/8 || got > timeout {
				t.Fatalf("a write has %s, want 7s to 8s", got)
			}
		}
		out.cutOff()
		<-time.After(timeout)
		write()
		if got := d.last(); got > 0 {
			t.Errorf("a write after the cut has %s, want none", got)
		}
	})
}

func TestASharedConnectionHasADeadlineOnlyDuringWrites(t *testing.T) {
	d := &deadlines{ResponseWriter: httptest.NewRecorder()}
	out := newResponse(d, "id", time.Hour)
	out.setShared()
	for range 2 {
		before := len(d.set)
		if _, err := out.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if during := d.set[before:]; len(during) != 2 || during[0].IsZero() || !during[1].IsZero() {
			t.Errorf("deadlines %v of a write, want one and then none", during)
		}
	}
}
