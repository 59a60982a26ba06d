package alert_test

import (
	"testing"
	"time"

	"mailroom"
	"mailroom/alert"
	"mailroom/internal/thread"
	"mailroom/store"
)

// deliver submits to a thread of an owner that delivers to the target phone since an earlier submit.
func (h *fixture) deliver(owner, text string) {
	h.t.Helper()
	_, err := h.ledger.Submit(h.t.Context(), thread.Submit{
		Thread: "of-" + owner, Owner: owner, Agent: "worker", Messages: []thread.NewMessage{{Parts: mailroom.Text(text)}},
		DeliverTo: alert.SubscriberID("phone", owner), DeliverAgent: alert.AgentName("phone"),
	})
	h.must(err)
	h.after(time.Minute)
}

// replies returns the replies of the runs in the thread that delivers for an owner, the newest first.
func (h *fixture) replies(owner string) (all []string) {
	h.t.Helper()
	h.must(h.ledger.View(h.t.Context(), func(r store.Reader) error {
		runs, err := r.Runs(store.RunQuery{Thread: alert.SubscriberID("phone", owner)})
		for _, run := range runs {
			if run.Status != mailroom.StatusCompleted || run.Reply == nil {
				h.t.Errorf("a run of %s is %s", owner, run.Status)
				continue
			}
			all = append(all, *run.Reply)
		}
		return err
	}))
	return all
}

// TestOnlyTokensOfATargetDeliver has a thread of ann, whom the target names, and one of bob, whom it named when
// bob's thread subscribed. The delivery ends with the name in the setting, and with the token.
func TestOnlyTokensOfATargetDeliver(t *testing.T) {
	inBubble(t, nil, []string{"phone"}, func(h *fixture) {
		h.createToken("ann")
		h.createToken("bob")
		h.deliver("bob", "boom")
		wantAll(t, h.replies("bob"), "Not sent: token bob may not deliver to target phone any more")
		if got := h.targets["phone"].messages(); len(got) != 0 {
			t.Errorf("sent: %+v", got)
		}
		h.deliver("ann", "boom")
		wantAll(t, h.replies("ann"), "Sent: worker ended without an answer (m1)")
		h.must(h.ledger.Accounts().RevokeToken(h.t.Context(), "ann"))
		h.deliver("ann", "boom again")
		wantAll(t, h.replies("ann")[:1], "Not sent: token ann may not deliver to target phone any more")
		if got := h.targets["phone"].messages(); len(got) != 1 {
			t.Errorf("sent: %+v", got)
		}
	})
}

func wantAll(t *testing.T, got []string, want string) {
	t.Helper()
	if len(got) == 0 {
		t.Errorf("no run: want %q", want)
	}
	for _, s := range got {
		if s != want {
			t.Errorf("the log says %q, want %q", s, want)
		}
	}
}
