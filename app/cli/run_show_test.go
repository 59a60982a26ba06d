package cli

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/app/command"
	"mailroom/entry"
)

func TestAttemptsAreReadFromTheLog(t *testing.T) {
	begin := time.Date(2026, 11, 1, 8, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }
	end := func(seconds int) *time.Time { t := at(seconds); return &t }
	limited := mailroom.RunError{Class: "rate_limited", Message: "wait"}
	entryAt := func(seconds int, kind string, attempt int, body any) mailroom.Entry {
		raw, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		return mailroom.Entry{Kind: kind, Attempt: attempt, At: at(seconds), Body: raw}
	}
	var got []attempt
	for _, e := range []mailroom.Entry{
		entryAt(1, entry.KindStarted, 1, entry.RunStarted{Worker: "a"}),
		entryAt(3, entry.KindRescheduled, 1, entry.RunRescheduled{Reason: "retry", Error: &limited}),
		entryAt(5, entry.KindStarted, 2, entry.RunStarted{Worker: "b"}),
		entryAt(6, entry.KindWaiting, 2, entry.RunWaiting{}),
		entryAt(7, entry.KindResumed, 3, entry.RunStarted{Worker: "b"}),
		entryAt(9, entry.KindFailed, 3, entry.RunFailed{Error: limited}),
		entryAt(10, entry.KindStarted, 4, entry.RunStarted{Worker: "c"}),
		entryAt(11, entry.KindRescheduled, 4, entry.RunRescheduled{Reason: "lease_lost"}),
		entryAt(12, entry.KindCancelled, 4, entry.RunStop{}), // between two attempts
		entryAt(13, entry.KindStarted, 5, entry.RunStarted{Worker: "c"}),
		entryAt(14, entry.KindRescheduled, 5, entry.RunRescheduled{Reason: "released"}),
		entryAt(15, entry.KindStarted, 6, entry.RunStarted{Worker: "c"}),
		entryAt(16, entry.KindRescheduled, 6, entry.RunRescheduled{Reason: "gave_way", Behind: "x"}),
		entryAt(17, entry.KindStarted, 7, entry.RunStarted{Worker: "c"}),
	} {
		var err error
		if got, err = foldAttempt(got, e); err != nil {
			t.Fatal(err)
		}
	}
	want := []attempt{
		{Attempt: 1, Worker: "a", StartedAt: at(1), EndedAt: end(3), Outcome: "retry", Error: &limited},
		{Attempt: 2, Worker: "b", StartedAt: at(5), EndedAt: end(6), Outcome: "waiting"},
		{Attempt: 3, Worker: "b", StartedAt: at(7), EndedAt: end(9), Outcome: "failed", Error: &limited},
		{Attempt: 4, Worker: "c", StartedAt: at(10), EndedAt: end(11), Outcome: "lease_lost"},
		{Attempt: 5, Worker: "c", StartedAt: at(13), EndedAt: end(14), Outcome: "released"},
		{Attempt: 6, Worker: "c", StartedAt: at(15), EndedAt: end(16), Outcome: "gave_way"},
		{Attempt: 7, Worker: "c", StartedAt: at(17)},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for i, want := range []string{"retry: rate_limited: wait", "waiting", "failed: rate_limited: wait", "lost its worker",
		"released by its worker", "put back: another run comes first", "running on c"} {
		if out := got[i].outcome(); out != want {
			t.Errorf("attempt %d: got %q, want %q", i+1, out, want)
		}
	}
}

func TestADurationSaysWhatTheRunTookAndWhatItWaited(t *testing.T) {
	at := time.Date(2026, 11, 1, 8, 0, 0, 0, time.UTC)
	start, end := at.Add(20*time.Millisecond), at.Add(1520*time.Millisecond)
	for _, c := range []struct {
		run  api.Run
		want string
	}{
		{api.Run{CreatedAt: at}, "-"},
		{api.Run{CreatedAt: at, StartedAt: &start}, "started after 20ms in the queue"},
		{api.Run{CreatedAt: at, StartedAt: &start, FinishedAt: &end}, "1.5s, after 20ms in the queue"},
	} {
		if got := duration(c.run); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestATicketWithoutArgumentsShowsNone(t *testing.T) {
	action := "shout"
	var out strings.Builder
	printTicketPrompt(&command.Console{Stderr: &out},
		api.Ticket{Kind: mailroom.TicketApproval, Action: &action, Arguments: json.RawMessage("null")})
	if got := out.String(); strings.Contains(got, "null") || !strings.Contains(got, "\n  shout\n") {
		t.Errorf("got %q", got)
	}
}
