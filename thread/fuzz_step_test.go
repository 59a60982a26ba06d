package thread_test

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"
	"time"
	"unicode/utf8"

	"mailroom"
	"mailroom/thread"
)

// sound checks that every entry is one line of JSON.
func (w *fixture) checkInvariants() {
	w.t.Helper()
	for _, e := range w.log {
		if raw := e.Raw; !json.Valid(raw) || !utf8.Valid(raw) || bytes.ContainsAny(raw, "\x00\n") {
			w.t.Fatalf("entry %q", raw)
		}
	}
}

// FuzzStep: what an agent writes is taken within its limits, and a repeat is
// recognised, or it is Invalid and nothing is written.
func FuzzStep(f *testing.F) {
	f.Add("s", "x.note", []byte(`{"a":1}`), []byte(`{}`), []byte(`[]`), 0.5, "ask", int64(0), "hello")
	f.Add("", "tool.started", []byte(" {\n}"), []byte(nil), []byte(`"\u0000"`), 0.0, "timer", int64(-62167219200_000_001),
		"")
	f.Add("\xff", "message", []byte(`[]`), []byte(`{`), []byte("\x00"), math.NaN(), "", int64(253402300800_000_000),
		"\x00")
	f.Add("s", "x.", []byte(`{"\ud800":"\ud800"}`), []byte(`1e999`), []byte(nil), 1.5, "timer", int64(math.MinInt64),
		"\u2028")
	f.Add("s", "x.a", []byte(`{`), []byte(nil), []byte(nil), -1.0, "", int64(0), "")
	f.Add("s", "x.a", []byte(`{}`), []byte(`{`), []byte(nil), -1.0, "", int64(0), "")
	f.Add("s", "x.a", []byte(`{}`), []byte(nil), []byte(`{`), 1.0, "", int64(0), "")
	f.Fuzz(func(t *testing.T, name, kind string, body, state, checkpoint []byte, progress float64, ask string,
		expires int64, text string) {
		w := newFixture(t)
		w.must(in("", "x"))
		w.mustStart("x")
		a := thread.StepCommit{Number: 1, Claim: w.claim(), Message: partialText(text), Step: mailroom.Step{
			Name: name, Entries: []mailroom.AgentEntry{{Kind: kind, Body: body}}, State: state, Checkpoint: checkpoint,
			Progress: progress,
		}}
		if ask != "" {
			k := mailroom.Ask{Name: ask, Kind: mailroom.TicketInput, Prompt: text, Arguments: state}
			if expires != 0 {
				k.Expires = time.UnixMicro(expires).UTC()
			}
			a.Step.Tickets = []mailroom.Ask{k}
		}
		before := len(w.log)
		seq, err := w.append(a)
		w.checkInvariants()
		if err != nil {
			wantCode(t, err, mailroom.CodeInvalid)
			wantEqual(t, "entries", len(w.log), before)
			return
		}
		wantEqual(t, "seq", int(seq), len(w.log))
		if again, err := w.append(a); err != nil || again != seq || len(w.log) != int(seq) {
			t.Errorf("a repeat: seq %d, error %v; want %d", again, err, seq)
		}
		r := w.runs["x"]
		if len(r.Checkpoint) > mailroom.MaxCheckpoint || r.Checkpoint != nil && !json.Valid(r.Checkpoint) ||
			!(r.Progress >= 0 && r.Progress <= 1) {
			t.Errorf("the run has the checkpoint %q and the progress %v", r.Checkpoint, r.Progress)
		}
	})
}

// FuzzDecide: a decision that fits is spent once and recognised when it is
// repeated; another is refused and changes nothing.
func FuzzDecide(f *testing.F) {
	f.Add("approve", []byte(nil), "because", 64, "ann")
	f.Add("approve", []byte(nil), "", 0, "ann")
	f.Add("answer", []byte(` {"a": 1}`), "", 16, "")
	f.Add("deny", []byte(`null`), "\xff", 15, "a\x00")
	f.Add("Approve", []byte(`{`), "", 0, "")
	f.Fuzz(func(t *testing.T, verdict string, answer []byte, reason string, shown int, by string) {
		w := newFixture(t)
		w.park(false, mailroom.Ask{Name: "q", Kind: mailroom.TicketApproval, Answers: true})
		k := w.ticket("q")
		d := thread.Decision{Ticket: k.ID, Verdict: mailroom.Verdict(verdict), Answer: answer, Reason: reason,
			Digest: k.Digest[:min(max(shown, 0), 64)], By: by}
		before := len(w.log)
		got, err := w.decide(d)
		w.checkInvariants()
		if err != nil {
			if code := mailroom.CodeOf(err); code != mailroom.CodeInvalid && code != mailroom.CodeConflict {
				t.Errorf("%+v: %v", d, err)
			}
			wantEqual(t, "entries", len(w.log), before)
			return
		}
		if got.State != mailroom.TicketDecided || got.Decision == mailroom.VerdictApprove && shown < 16 {
			t.Errorf("%+v makes %+v", d, got)
		}
		after := len(w.log)
		again, err := w.decide(d)
		if err != nil || again.Decision != got.Decision || len(w.log) != after {
			t.Errorf("a repeat of %+v: %+v, %v", d, again, err)
		}
	})
}
