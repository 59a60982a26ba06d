package thread

import (
	"testing"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/internal/digest"
)

// A store may hold the digest of a settle that was made before digests covered the
// tickets. Its repeat is recognised.
func TestASettleStoredByAnOlderVersionIsRecognised(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	s := Settle{Claim: mailroom.Claim{Thread: "t", Run: "r", Attempt: 1}, Number: 1, Outcome: OutcomePark,
		Asks: []mailroom.Ask{{Name: "q", Kind: mailroom.TicketInput}}, Wait: &mailroom.Wait{Names: []string{"q"}}}
	// It was made of the outcome, the message, the failure and the wait.
	const old = "{\"Outcome\":\"wait\",\"Message\":null,\"Failure\":\"\",\"Wait\":{\"names\":[\"q\"]}}"
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	if s.legacySum != digest.Short(rawBody(old)) || s.legacySum == s.sum {
		t.Fatalf("digests %s and %s, want %s for the old one", s.legacySum, s.sum, digest.Short(rawBody(old)))
	}
	l := NewState(&mailroom.Thread{ID: "t", Key: 1, Current: "r"})
	l.Runs.Add(&mailroom.Run{Key: 1, ID: "r", Thread: "t", Status: mailroom.StatusWaiting, Attempt: 1,
		LastStep: mailroom.StepMark{Attempt: 1, Step: 1, Digest: s.legacySum}})
	if r, err := l.Settle(&s, now); err != nil || r.ID != "r" || l.Changed() {
		t.Errorf("got %v, %v", r, err)
	}
}

// rawBody is a body that is encoded already.
type rawBody string

func (b rawBody) AppendJSON(to []byte) []byte { return append(to, b...) }

func TestATicketThatIsReadAfterItsTimeHasExpired(t *testing.T) {
	at := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for state, want := range map[mailroom.TicketState]mailroom.TicketState{mailroom.TicketOpen: mailroom.TicketExpired,
		mailroom.TicketDecided: mailroom.TicketDecided, mailroom.TicketVoid: mailroom.TicketVoid} {
		k := mailroom.Ticket{State: state, ExpiresAt: &at}
		if got := k.StateAt(at.Add(-1)); got != state {
			t.Errorf("%s before its time: %s", state, got)
		}
		if got := k.StateAt(at); got != want {
			t.Errorf("%s at its time: %s, want %s", state, got, want)
		}
	}
}

func TestUnknownValuesAreNullAndTotalsAreZero(t *testing.T) {
	for want, body := range map[string]any{
		`{"reply":null,"steps":0,"usage":{"input_tokens":0,"output_tokens":0,"cost_usd":0}}`:                                                              entry.RunCompleted{},
		`{"agent":"a","agent_version":null,"mode":"","priority":0,"available_at":"0001-01-01T00:00:00Z","messages":null,"origin":{"via":"","sender":""}}`: entry.RunQueued{Agent: "a"},
	} {
		if e, err := entry.New("t", 1, "k", "r", 0, time.Time{}, body); err != nil || string(e.Body) != want {
			t.Errorf("got %s, %v, want %s", e.Body, err, want)
		}
	}
}
