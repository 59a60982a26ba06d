package mcp_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/protocol/mcp"
)

// everywhere runs a test over HTTP, and over a client in memory.
func everywhere(t *testing.T, f func(h *fixture, connect func(secret, thread string) *toolClient)) {
	for name, over := range map[string]func(*fixture) func(string, string) *toolClient{
		"over HTTP":                 func(h *fixture) func(string, string) *toolClient { return h.web },
		"with a client of a server": func(h *fixture) func(string, string) *toolClient { return h.near },
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t)
			f(h, over(h))
		})
	}
}

func TestAllToolsAreOffered(t *testing.T) {
	everywhere(t, func(h *fixture, connect func(string, string) *toolClient) {
		list, err := connect(operator, "mine").session.ListTools(h.t.Context(), nil)
		if err != nil {
			h.t.Fatal(err)
		}
		var names []string
		for _, tool := range list.Tools {
			names = append(names, tool.Name)
			if tool.Description == "" || tool.InputSchema == nil {
				h.t.Errorf("%s has no description", tool.Name)
			}
		}
		slices.Sort(names)
		want := []string{
			"cancel_run", "cancel_schedule", "decide", "delegate_task", "get_run", "inbox_peek", "inbox_pop",
			"list_schedules", "list_tickets", "schedule_message", "send_message_to_user", "submit_message", "wait_for_message",
		}
		if diff := cmp.Diff(want, names); diff != "" {
			h.t.Errorf("tools (-want +got):\n%s", diff)
		}
	})
}

func TestAMessageIsReadAnsweredAndPopped(t *testing.T) {
	everywhere(t, func(h *fixture, connect func(string, string) *toolClient) {
		me := connect(operator, "mine")
		if got, _ := me.try("wait_for_message", args{"timeout_secs": 0.05}); got != `{"timeout":true}` {
			h.t.Errorf("wait on an empty inbox: %s, want a timeout", got)
		}
		// The inbox exists by now, so a message to it needs no agent.
		first := h.send(h.token("ann", auth.PermissionAdmin), "mine", "one", "")
		second := h.send(operator, "mine", "two", "")
		row := me.read()
		want := mcp.Row{Activity: first, Kind: "canvas_user", Text: "one", Workspace: "mine", Sender: "ann",
			CreatedAt: row.CreatedAt}
		if diff := cmp.Diff(want, row); diff != "" || row.CreatedAt.IsZero() {
			h.t.Errorf("the message (-want +got):\n%s", diff)
		}
		if again := me.read(); again.Activity != first {
			h.t.Errorf("second read: %s, want the same message", again.Activity)
		}
		rows := do[mcp.Rows](me, "inbox_peek", args{"limit": 5})
		if len(rows.Items) != 2 || rows.Total != 2 || rows.Items[0].Activity != first || rows.Items[1].Text != "two" {
			h.t.Errorf("peek: %+v, want both, in order", rows)
		}
		if rows := do[mcp.Rows](me, "inbox_peek", args{"limit": 1}); len(rows.Items) != 1 || rows.Total != 2 {
			h.t.Errorf("peek at one: %+v, want one of two", rows)
		}
		got := do[mcp.Popped](me, "inbox_pop", args{"activity_id": second})
		if got.Removed || !strings.Contains(got.Reason, "behind") {
			h.t.Errorf("popping what is behind the head: %+v, want why not", got)
		}
		said := do[map[string]string](me, "send_message_to_user", args{"message": "hello ann"})
		if said["status"] != "sent" || said["activity_id"] != first || said["message_id"] == "" ||
			said["workspace_id"] != "mine" {
			h.t.Errorf("replies %v", said)
		}
		me.pop(first)
		got = do[mcp.Popped](me, "inbox_pop", args{"activity_id": first})
		if got.Removed || !strings.Contains(got.Reason, "completed") {
			h.t.Errorf("popping it again: %+v, want why not", got)
		}
		if r := h.ended(first); r.Status != mailroom.StatusCompleted || r.Reply == nil || *r.Reply != "hello ann" {
			h.t.Errorf("run is %s with reply %v", r.Status, r.Reply)
		}
		if row := me.read(); row.Activity != second {
			h.t.Errorf("next message %+v, want the second one", row)
		}
		me.pop(second)
		if got := h.texts("mine", mailroom.RoleAssistant); got != "hello ann" {
			h.t.Errorf("replies %q", got)
		}
	})
}

func TestAnArrivingMessageEndsTheWait(t *testing.T) {
	everywhere(t, func(h *fixture, connect func(string, string) *toolClient) {
		me := connect(operator, "mine")
		me.try("inbox_peek", nil) // creates the inbox
		waiting := make(chan mcp.Row)
		go func() { waiting <- me.read() }()
		h.waits(1)
		// A waiting call does not block others on the same connection.
		do[api.Submitted](me, "submit_message", args{"thread": "mine", "text": "at last"})
		if row := <-waiting; row.Text != "at last" {
			h.t.Errorf("wait returned %+v", row)
		}
	})
}

// waits until n streams are open.
func (h *fixture) waits(n int) {
	h.t.Helper()
	for range 2000 {
		// Nothing announces a subscriber; poll the count.
		got, err := scrape(h, "mailroom_stream_subscribers ")
		if err != nil {
			h.t.Fatal(err)
		}
		if got == n {
			return
		}
	}
	h.t.Fatalf("timeout waiting for %d streams", n)
}

func TestSayingAndDelegatingNeedNoMessage(t *testing.T) {
	everywhere(t, func(h *fixture, connect func(string, string) *toolClient) {
		me := connect(operator, "mine")
		do[map[string]string](me, "send_message_to_user", args{"message": "good morning"})
		done := do[map[string]string](me, "delegate_task", args{"workspace_id": "echo", "task": "what is new"})
		row := me.read()
		want := mcp.Row{
			Activity: row.Activity, CreatedAt: row.CreatedAt, Kind: "delegation_result", Text: "what is new", Workspace: "mine",
			Peer: done["workspace_id"], Delegation: done["delegation_id"], Status: "completed", Sender: "echo",
		}
		if diff := cmp.Diff(want, row); diff != "" || row.Peer == "" || row.Delegation == "" {
			h.t.Errorf("the result (-want +got):\n%s", diff)
		}
		me.pop(row.Activity)
		// The same thread accepts further tasks.
		again := do[map[string]string](me, "delegate_task", args{"workspace_id": done["workspace_id"], "task": "and now"})
		if again["workspace_id"] != done["workspace_id"] {
			h.t.Errorf("delegated to %v, want the thread of before", again)
		}
		if row := me.read(); row.Text != "and now" {
			h.t.Errorf("result %+v", row)
		}
		if got := h.texts("mine", mailroom.RoleAssistant); got != "good morning" {
			h.t.Errorf("replies %q", got)
		}
	})
}

func TestTwoInboxesTalk(t *testing.T) {
	everywhere(t, func(h *fixture, connect func(string, string) *toolClient) {
		me, you := connect(operator, "mine"), connect(operator, "yours")
		you.try("inbox_peek", nil) // creates the inbox
		h.send(operator, "mine", "ask them", "inbox")
		mine := me.read()
		do[map[string]string](me, "delegate_task", args{"workspace_id": "yours", "task": "please"})
		theirs := you.read()
		if theirs.Kind != "peer_agent" || theirs.Peer != "mine" || theirs.Text != "please" {
			h.t.Errorf("task %+v", theirs)
		}
		do[map[string]string](you, "send_message_to_user", args{"message": "here you are"})
		you.pop(theirs.Activity)
		me.pop(mine.Activity)
		if row := me.read(); row.Kind != "delegation_result" || row.Text != "here you are" || row.Peer != "yours" {
			h.t.Errorf("result %+v", row)
		}
		// A client can write to another inbox of its own.
		do[map[string]string](me, "send_message_to_user", args{"message": "by the way", "workspace_id": "yours"})
		if got := h.texts("yours", mailroom.RoleAssistant); got != "here you are|by the way" {
			h.t.Errorf("replies in the other inbox %q", got)
		}
	})
}

func TestTwoReadersOfOneInboxDoEverythingOnce(t *testing.T) {
	everywhere(t, func(h *fixture, connect func(string, string) *toolClient) {
		const messages = 6
		for range messages {
			h.send(operator, "mine", "m", "inbox")
		}
		var removed sync.Map
		var said atomic.Int64
		var both sync.WaitGroup
		for range 2 {
			me := connect(operator, "mine")
			both.Go(func() {
				for {
					row := do[mcp.Row](me, "wait_for_message", args{"timeout_secs": 0.5})
					if row.Activity == "" {
						return
					}
					// Equal texts of two readers are two messages.
					if _, refused := me.try("send_message_to_user", args{"message": "ok"}); refused != "" {
						h.t.Errorf("send_message_to_user: %s", refused)
					}
					said.Add(1)
					if do[mcp.Popped](me, "inbox_pop", args{"activity_id": row.Activity}).Removed {
						if _, twice := removed.LoadOrStore(row.Activity, true); twice {
							h.t.Errorf("%s was removed twice", row.Activity)
						}
					}
				}
			})
		}
		both.Wait()
		n := 0
		removed.Range(func(any, any) bool { n++; return true })
		if n != messages {
			h.t.Errorf("%d messages were removed, want %d", n, messages)
		}
		if got, want := strings.Count(h.texts("mine", mailroom.RoleAssistant), "ok"), int(said.Load()); got != want {
			h.t.Errorf("%d replies ok in the thread, want %d", got, want)
		}
	})
}

func TestAMessageThatHasGrownMustBeReadAgainBeforeItIsPopped(t *testing.T) {
	h := open(t)
	me := h.web(operator, "mine")
	first := h.send(operator, "mine", "one", "inbox")
	me.read()
	do[api.Submitted](me, "submit_message", args{"thread": "mine", "text": "and two", "mode": "steer"})
	got := do[mcp.Popped](me, "inbox_pop", args{"activity_id": first})
	if got.Removed || !strings.Contains(got.Reason, "read it again") {
		t.Errorf("popping it: %+v, want why not", got)
	}
	if row := me.read(); row.Text != "one\nand two" {
		t.Errorf("second read %q", row.Text)
	}
	me.pop(first)
}

func TestOtherToolsCallTheOperationsOfTheirNames(t *testing.T) {
	everywhere(t, func(h *fixture, connect func(string, string) *toolClient) {
		me := connect(operator, "mine")
		sent := do[api.Submitted](me, "submit_message", args{"thread": "t", "text": "hi", "agent": "echo", "key": "k"})
		if again := do[api.Submitted](me, "submit_message",
			args{"thread": "t", "text": "hi", "agent": "echo", "key": "k"}); again.Disposition != api.DispositionDuplicate ||
			again.Run != sent.Run {
			h.t.Errorf("the same key again: %+v", again)
		}
		r := do[api.Run](me, "get_run", args{"run": sent.Run, "timeout_secs": 20})
		if r.Status != mailroom.StatusCompleted || *r.Reply != "hi" {
			h.t.Errorf("run %s, reply %v", r.Status, r.Reply)
		}
		asked := do[api.Submitted](me, "submit_message", args{"text": "go", "agent": "asker"})
		do[api.Run](me, "get_run", args{"run": asked.Run, "timeout_secs": 20})
		open := do[api.Page[api.Ticket]](me, "list_tickets", args{"run": asked.Run})
		if len(open.Items) != 1 || open.Items[0].Kind != mailroom.TicketApproval {
			h.t.Fatalf("tickets: %+v, want the approval", open.Items)
		}
		k := open.Items[0]
		me.refuse("decide", args{"ticket": k.ID, "decision": "approve"}, mailroom.CodeInvalid, "digest")
		me.refuse("decide", args{"ticket": k.ID, "decision": "approve", "digest": strings.Repeat("0", 16)},
			mailroom.CodeConflict, "digest mismatch")
		if got := do[api.Ticket](me, "decide", args{"ticket": k.ID, "decision": "approve",
			"digest": k.Digest[:16]}); got.State != mailroom.TicketDecided {
			h.t.Errorf("decided: %+v", got)
		}
		if r := h.ended(asked.Run); r.Status != mailroom.StatusCompleted {
			h.t.Errorf("run is %s after the decision", r.Status)
		}
		more := do[api.Submitted](me, "submit_message", args{"text": "go", "agent": "asker"})
		if r := do[api.Run](me, "cancel_run", args{"run": more.Run}); r.Status != mailroom.StatusCancelled && !r.Stopping {
			h.t.Errorf("cancelled: %+v", r)
		}
	})
}

func TestAnAgentSchedulesMessagesToItsInbox(t *testing.T) {
	h := open(t)
	me := h.web(h.token("coder", "read", "submit", "decide"), "mine")
	me.refuse("schedule_message", args{"text": "x", "name": "x", "at": "20m"}, mailroom.CodeNotFound, `no thread "mine"`)
	do[map[string]any](me, "wait_for_message", args{"timeout_secs": 0.1})
	me.refuse("schedule_message", args{"text": "look", "name": "build"}, mailroom.CodeConflict, "exactly one of")
	type scheduled struct{ Schedule, Text, When string }
	made := do[scheduled](me, "schedule_message", args{"text": "look", "name": "build", "at": "20m"})
	list := do[struct{ Items []scheduled }](me, "list_schedules", args{})
	if len(list.Items) != 1 || list.Items[0].Schedule != made.Schedule || list.Items[0].Text != "look" {
		t.Errorf("made %+v, listed %+v", made, list.Items)
	}
	eve := h.web(h.token("eve", "read", "submit", "decide"), "mine")
	eve.refuse("cancel_schedule", args{"schedule": made.Schedule}, mailroom.CodeNotFound, "no schedule")
	do[map[string]any](me, "cancel_schedule", args{"schedule": made.Schedule})
	if list := do[struct{ Items []scheduled }](me, "list_schedules", args{}); len(list.Items) != 0 {
		t.Errorf("after the cancellation: %+v", list.Items)
	}
	soon := do[scheduled](me, "schedule_message", args{"text": "look now", "name": "soon", "at": "1s"})
	got := do[struct{ Text string }](me, "wait_for_message", args{"timeout_secs": 60})
	if got.Text != "look now" {
		t.Errorf("schedule %s: got %+v", soon.Schedule, got)
	}
}

func TestOriginOfWhatIsSubmittedOverHTTPIsMCP(t *testing.T) {
	h := open(t)
	sent := do[api.Submitted](h.web(operator, "mine"), "submit_message", args{"text": "hi", "agent": "echo"})
	if got := h.ended(sent.Run).Origin; got.Via != "mcp" || got.Sender != auth.Operator || got.RequestID == "" {
		t.Errorf("origin %+v, want via mcp", got)
	}
}

func TestACancelledCallStopsWaiting(t *testing.T) {
	h := open(t)
	me := h.near(operator, "mine")
	me.try("inbox_peek", nil) // creates the inbox
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := me.call(ctx, "wait_for_message", args{"timeout_secs": 300})
		ended <- err
	}()
	h.waits(1)
	cancel()
	if err := <-ended; err == nil {
		t.Error("a cancelled call has a response")
	}
	h.waits(0)
}

func TestALostConnectionStopsWaiting(t *testing.T) {
	h := open(t)
	me := h.web(operator, "mine")
	me.try("inbox_peek", nil) // creates the inbox
	for name, wait := range map[string]func(context.Context) error{
		"the latest protocol": func(ctx context.Context) error {
			_, err := me.call(ctx, "wait_for_message", args{"timeout_secs": 300})
			return err
		},
		"an older one": func(ctx context.Context) error {
			body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait_for_message","arguments":{"timeout_secs":300}}}`
			_, _, err := h.try(ctx, "/mcp?thread=mine", body, "Mcp-Protocol-Version: 2025-06-18")
			return err
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- wait(ctx) }()
		h.waits(1)
		cancel()
		if err := <-ended; err == nil {
			t.Errorf("%s: an abandoned call has a response", name)
		}
		h.waits(0)
	}
}

func TestScheduledMessageBlocksNoOthers(t *testing.T) {
	h := open(t)
	me := h.web(operator, "mine")
	tomorrow := time.Now().Add(24 * time.Hour)
	later, err := h.admin.Submit(t.Context(), api.Submit{Thread: "mine", Agent: "mailbox", Text: "later",
		NotBefore: &tomorrow})
	if err != nil {
		t.Fatal(err)
	}
	do[map[string]string](me, "send_message_to_user", args{"message": "good morning"})
	if got, _ := me.try("inbox_peek", nil); got != `{"items":[],"total":0}` {
		t.Errorf("peek: %s, want an empty inbox", got)
	}
	if got := do[mcp.Popped](me, "inbox_pop", args{"activity_id": later.Run}); got.Removed ||
		!strings.Contains(got.Reason, "not due before") {
		t.Errorf("popping it: %+v, want why not", got)
	}
	h.send(operator, "mine", "now", "")
	if row := me.read(); row.Text != "now" {
		t.Errorf("read %+v", row)
	}
	if th, err := h.admin.Thread(t.Context(), "mine"); err != nil || th.Agent != "mailbox" {
		t.Errorf("agent of the thread is %s, %v, want it unchanged", th.Agent, err)
	}
}

func TestAShutdownEndsTheWait(t *testing.T) {
	h := open(t)
	me := h.web(operator, "mine")
	me.try("inbox_peek", nil) // creates the inbox
	refused := make(chan string)
	go func() {
		_, why := me.try("wait_for_message", args{"timeout_secs": 300})
		refused <- why
	}()
	h.waits(1)
	go h.stop() // the cleanup waits for it
	select {
	case why := <-refused:
		if !strings.HasPrefix(why, "unavailable: ") {
			t.Errorf("the wait ended with %q, want unavailable", why)
		}
	case <-time.After(5 * time.Second): // its grace is longer
		t.Error("the wait continues during the shutdown")
	}
}
