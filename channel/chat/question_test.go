package chat

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/thread"
)

func newTicket(run, what string) *mailroom.Ticket {
	ask := mailroom.Ask{Name: what, Kind: mailroom.TicketApproval, Prompt: "May I?", Action: what}
	return &mailroom.Ticket{ID: thread.TicketID(run, what), Run: run, Kind: mailroom.TicketApproval, Prompt: "May I?",
		Action: what, Digest: thread.AskDigest(&ask), State: mailroom.TicketOpen}
}

func TestAButtonCarriesWhatWasShown(t *testing.T) {
	k := newTicket("r", "rm")
	for _, v := range []mailroom.Verdict{mailroom.VerdictApprove, mailroom.VerdictDeny} {
		data := buttonData(v, k)
		if len(data) > 64 {
			t.Errorf("%q has %d bytes", data, len(data))
		}
		got, ok := ParseButton(data)
		if want := (thread.Decision{Ticket: k.ID, Verdict: v, Digest: k.Digest[:16]}); !ok || !cmp.Equal(want, got) {
			t.Errorf("%q is read as %+v, want %+v", data, got, want)
		}
	}
	for _, data := range []string{"", "approve", "answer " + buttonData(mailroom.VerdictApprove, k)[8:],
		buttonData(mailroom.VerdictApprove, k)[:40], buttonData(mailroom.VerdictApprove, k) + "0", "approve  "} {
		if d, ok := ParseButton(data); ok {
			t.Errorf("%q is read as %+v", data, d)
		}
	}
}

func FuzzButtons(f *testing.F) {
	f.Add(buttonData(mailroom.VerdictApprove, newTicket("r", "rm")))
	f.Fuzz(func(t *testing.T, data string) {
		d, ok := ParseButton(data)
		if !ok {
			return
		}
		k := &mailroom.Ticket{ID: d.Ticket, Digest: d.Digest}
		if again, ok := ParseButton(buttonData(d.Verdict, k)); d.Verdict != mailroom.VerdictApprove &&
			d.Verdict != mailroom.VerdictDeny || ok && again.Verdict != d.Verdict {
			t.Errorf("%q is read as %+v, then %+v", data, d, again)
		}
	})
}

func TestChooseTicketReturnsTheTicketThatACommandNames(t *testing.T) {
	a, b, done := newTicket("r", "a"), newTicket("r", "b"), newTicket("r", "done")
	done.State = mailroom.TicketDecided
	word := func(k *mailroom.Ticket) string { return TicketWord(k) }
	for _, tc := range []struct {
		name   string
		shown  []*mailroom.Ticket
		v      mailroom.Verdict
		rest   string
		want   *mailroom.Ticket
		reason string
	}{
		{"the only one", []*mailroom.Ticket{a, done}, mailroom.VerdictApprove, "", a, ""},
		{"none", nil, mailroom.VerdictApprove, "", nil, ""},
		{"none open", []*mailroom.Ticket{done}, mailroom.VerdictApprove, "", nil, ""},
		{"two", []*mailroom.Ticket{a, b}, mailroom.VerdictApprove, "", nil, ""},
		{"one of two", []*mailroom.Ticket{a, b}, mailroom.VerdictApprove, word(b), b, ""},
		{"in capitals", []*mailroom.Ticket{a, b}, mailroom.VerdictApprove, strings.ToUpper(word(a)), a, ""},
		{"a word that was not shown", []*mailroom.Ticket{a}, mailroom.VerdictApprove, word(b), nil, ""},
		{"an invalid word", []*mailroom.Ticket{a}, mailroom.VerdictApprove, "please", nil, ""},
		{"decided before", []*mailroom.Ticket{a, done}, mailroom.VerdictApprove, word(done), done, ""},
		{"denied with a reason", []*mailroom.Ticket{a}, mailroom.VerdictDeny, "too risky", a, "too risky"},
		{"denied by word, with a reason", []*mailroom.Ticket{a, b}, mailroom.VerdictDeny, word(a) + " too risky", a, "too risky"},
		{"denied by a word that was not shown", []*mailroom.Ticket{a}, mailroom.VerdictDeny, word(b), nil, ""},
	} {
		got, reason, words := ChooseTicket(tc.shown, tc.v, tc.rest, Capabilities{})
		if got != tc.want || reason != tc.reason || (got == nil) != (words != "") {
			t.Errorf("%s: %+v, reason %q, %q", tc.name, got, reason, words)
		}
	}
}

func TestOnlyApprovedActionsAreCalledApproved(t *testing.T) {
	who := func(by string) string { return by }
	for _, s := range []mailroom.TicketState{mailroom.TicketOpen, mailroom.TicketExpired, mailroom.TicketVoid,
		mailroom.TicketDecided} {
		for _, v := range []mailroom.Verdict{"", mailroom.VerdictApprove, mailroom.VerdictDeny} {
			k := newTicket("r", "rm")
			k.State, k.Decision = s, v
			if is := strings.HasPrefix(TicketOutcome(k, who), "Approved"); is != (s == mailroom.TicketDecided &&
				v == mailroom.VerdictApprove) {
				t.Errorf("%s and %q: %s", s, v, TicketOutcome(k, who))
			}
		}
	}
}
