package adapter_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mailroom"
	"mailroom/channel/chat"
	"mailroom/schedule/plan"
)

// repeater answers with the text of its input.
func repeater(ctx context.Context, s mailroom.Session) error {
	input, err := s.Input(ctx)
	if err != nil {
		return err
	}
	return s.Stream(ctx, "heard "+input[0].Text)
}

// says sends a text as ann and returns what the chat got within a second.
func (o *serverFixture) says(text string) string {
	o.t.Helper()
	before := len(o.sentTexts())
	o.platform.SendPrivate("ann", text)
	<-time.After(time.Second)
	synctest.Wait()
	return strings.Join(o.sentTexts()[before:], "\n")
}

func TestAUserSchedulesListsAndCancels(t *testing.T) {
	withServer(t, repeater, func(o *serverFixture) {
		o.start()
		steps := []struct{ say, want string }{
			{"/schedule 0 7 * * 1-5 anything new?", "no messages yet: write one first"},
			{"hello", "heard hello"},
			{"/schedules", "Nothing is scheduled. Use /remind in 20m TEXT"},
			{"/remind in 20 minutes look at the oven", "Scheduled: Sat 2000-01-01 00:20 UTC. /schedules lists and cancels."},
			{"/remind soon look", "Not understood: the time is not clear"},
			{"/schedule every weekday at 7 anything new?", `use "0 7 * * 1-5"`},
			{"/schedule 0 0 31 2 * x", "Not scheduled: "},
			{"/schedules zone Berlin", "Not understood: "},
			{"/schedules zone Europe/Berlin", "Times are those of Europe/Berlin now"},
			{"/schedule every 90m anything new?", "Scheduled: Sat 2000-01-01 02:30 Europe/Berlin"},
			{"/remind 17:30 call Bob", "Scheduled: Sat 2000-01-01 17:30 Europe/Berlin"},
			{"/schedules", "1. Sat 2000-01-01 00:20 UTC: Reminder: look at the oven\n2. Sat 2000-01-01 02:30 Europe/Berlin"},
			{"/schedules cancel 3", "Cancelled: Reminder: call Bob"},
			{"/schedules cancel 3", "No schedule has this number"},
			{"/schedules all", "Usage: /schedules"},
		}
		for _, step := range steps {
			if got := o.says(step.say); !strings.Contains(got, step.want) {
				t.Errorf("%s: %q, want %q", step.say, got, step.want)
			}
		}
		before := len(o.sentTexts())
		<-time.After(100 * time.Minute)
		if got := strings.Join(o.sentTexts()[before:], ", "); got != "Reminder: look at the oven, heard anything new?" {
			t.Errorf("later the chat got %s", got)
		}
	})
}

func TestTheSchedulesOfAChatAreBounded(t *testing.T) {
	withServer(t, repeater, func(o *serverFixture) {
		o.start()
		for n := range plan.MaxOwn + 1 {
			want := "Scheduled: "
			if n == plan.MaxOwn {
				want = "Not scheduled: 20 are open"
			}
			if got := o.says(fmt.Sprintf("/remind in %dh x", n+1)); !strings.Contains(got, want) {
				t.Errorf("reminder %d: %q", n, got)
			}
		}
	})
}

func TestTheSchedulesOfAnUnpairedUserArePaused(t *testing.T) {
	withServer(t, repeater, func(o *serverFixture) {
		o.options.Access = chat.AccessPolicy{Pairing: true}
		o.start()
		operator := chat.PairingOperator{Ledger: o.ledger, Channel: "c"}
		if _, err := operator.Approve(o.t.Context(), codeIn(o.says("let me in")), false, "admin"); err != nil {
			t.Fatal(err)
		}
		o.says("hello")
		o.says("/schedule every 1h anything new?")
		o.says("/remind in 90m look")
		<-time.After(61 * time.Minute)
		if got := o.sentTexts(); got[len(got)-1] != "heard anything new?" {
			t.Fatalf("before the end of the pairing: %q", got)
		}
		if err := operator.Revoke(o.t.Context(), "ann"); err != nil {
			t.Fatal(err)
		}
		before, runs := len(o.sentTexts()), len(o.deliveries())
		<-time.After(5 * time.Hour)
		if got := o.sentTexts()[before:]; len(got) != 0 || len(o.deliveries()) != runs {
			t.Errorf("after the end of the pairing: %q, %d deliveries", got, len(o.deliveries())-runs)
		}
	})
}
