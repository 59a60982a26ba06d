package poll_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/poll"
	"mailroom/channel/poll/polltest"
)

func TestAMessageIsRunAnsweredAndAcknowledged(t *testing.T) {
	agent := &upperAgent{}
	w := newFixture(t, agent).start()
	w.platform.Add(polltest.Canvas("a-1", "hello"), polltest.Peer("a-2", "peer-9", "and you"))
	seen := w.platform.WaitAcked(t, 2)
	texts := seen.Texts()
	slices.Sort(texts)
	if diff := cmp.Diff([]string{"canvas:ws-1: HELLO", "peer:peer-9: AND YOU"}, texts); diff != "" {
		t.Error(diff)
	}
	for _, r := range seen.Replies {
		if r.From != polltest.Workspace {
			t.Errorf("a reply was sent from %s", r.From)
		}
	}
	if !slices.IsSorted(seen.Acks) {
		t.Errorf("acknowledgements %v decrease", seen.Acks)
	}
	w.waitFor("the channel says so", func() bool { s := w.runner.State(); return s.Unacked == 0 && s.Cursor == "a-2" })
	if s := w.runner.State(); s.Condition != channel.ConditionConnected || s.LastInbound.IsZero() ||
		s.LastOutbound.IsZero() || s.LastError != "" {
		t.Errorf("the state is %+v", s)
	}
	w.platform.WaitFor(t, "a heartbeat", func(s polltest.Traffic) bool { return len(s.Heartbeats) > 0 })
	if got := w.platform.Traffic().Heartbeats[0]["workspace_id"]; got != polltest.Workspace {
		t.Errorf("heartbeat %v", got)
	}
}

// TestEachKindOfRowIsProcessed has a case for each kind of row: whether the agent runs, and what the bridge replies.
func TestEachKindOfRowIsProcessed(t *testing.T) {
	one := func(r polltest.Row) func(*polltest.Platform) { return func(p *polltest.Platform) { p.Add(r) } }
	raw := func(s string) func(*polltest.Platform) { return func(p *polltest.Platform) { p.AddRaw(s) } }
	with := func(r polltest.Row, more polltest.Row) polltest.Row {
		for k, v := range more {
			if r[k] = v; v == nil {
				delete(r, k)
			}
		}
		return r
	}
	for name, c := range map[string]struct {
		add   func(*polltest.Platform)
		input string // input of the agent; "" if the agent does not run
		reply string // "" for none
	}{
		"a person": {one(polltest.Canvas("x", "hi")), "hi", "canvas:ws-1: HI"},
		"another workspace": {one(with(polltest.Canvas("x", "hi"), polltest.Row{"arrival_workspace_id": "ws-2"})),
			"hi", "canvas:ws-2: HI"},
		"the name of older servers": {one(with(polltest.Canvas("x", "hi"),
			polltest.Row{"arrival_workspace_id": nil, "workspace_id": "ws-3"})), "hi", "canvas:ws-3: HI"},
		"no workspace": {one(with(polltest.Canvas("x", "hi"), polltest.Row{"arrival_workspace_id": nil})), "hi",
			"canvas:ws-1: HI"},
		"parts by type": {one(with(polltest.Canvas("x", ""),
			polltest.Row{"parts": []any{map[string]any{"type": "text", "text": "a"}, map[string]any{"type": "text",
				"text": "b"}}})), "a\nb", "canvas:ws-1: A\nB"},
		"parts by kind": {one(with(polltest.Canvas("x", ""),
			polltest.Row{"parts": []any{map[string]any{"kind": "text", "text": "a"}, 7, map[string]any{"kind": "text",
				"text": "b"}}})), "a\nb", "canvas:ws-1: A\nB"},
		"no text":                 {one(polltest.Canvas("x", "")), "(empty message)", "canvas:ws-1: (EMPTY MESSAGE)"},
		"another agent":           {one(polltest.Peer("x", "p", "hi")), "hi", "peer:p: HI"},
		"an agent without a name": {one(polltest.Peer("x", "", "hi")), "hi", ""},
		"the result of a delegation": {one(with(polltest.Peer("x", "p", "hi"), polltest.Row{"kind": "delegation_result"})),
			"hi", ""},
		"our own delegation's": {one(with(polltest.Peer("x", "p", "hi"),
			polltest.Row{"kind": "delegation_result", "source_id": polltest.Workspace})), "hi", ""},
		"a kind to come":       {one(with(polltest.Canvas("x", "hi"), polltest.Row{"kind": "carrier_pigeon"})), "hi", ""},
		"no kind":              {one(with(polltest.Canvas("x", "hi"), polltest.Row{"kind": nil})), "hi", ""},
		"our own notice":       {one(with(polltest.Canvas("x", "hi"), polltest.Row{"method": "notify"})), "", ""},
		"an echo of ourselves": {one(polltest.Peer("x", polltest.Workspace, "hi")), "", ""},
		"no id":                {one(with(polltest.Canvas("", "hi"), polltest.Row{"activity_id": nil})), "", ""},
		"a time-out marker":    {raw(`{"timeout":true}`), "", ""},
		"no object":            {raw(`"hello"`), "", ""},
		"null":                 {raw(`null`), "", ""},
		"a list":               {raw(`[1]`), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			agent := &upperAgent{}
			w := newFixture(t, agent)
			c.add(w.platform)
			w.platform.Add(polltest.Canvas("last", "last")) // a later row
			w.start()
			seen := w.platform.WaitAcked(t, 2)
			wantInputs, wantReplies := []string{"last"}, []string{"canvas:ws-1: LAST"}
			if c.input != "" {
				wantInputs = append(wantInputs, c.input)
			}
			if c.reply != "" {
				wantReplies = append(wantReplies, c.reply)
			}
			gotInputs, gotReplies := agent.received(), seen.Texts()
			for _, s := range [][]string{wantInputs, wantReplies, gotInputs, gotReplies} {
				slices.Sort(s)
			}
			if diff := cmp.Diff(wantInputs, gotInputs); diff != "" {
				t.Errorf("inputs (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(wantReplies, gotReplies); diff != "" {
				t.Errorf("replies (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnInvalidRowIsNotAcknowledgedByItself(t *testing.T) {
	agent := &upperAgent{}
	w := newFixture(t, agent)
	w.platform.Add(polltest.Canvas("a-1", "hello"))
	w.platform.AddRaw(`{"kind":"canvas_user","text":"who am I?","seq":2}`)
	w.start()
	w.platform.WaitAcked(t, 1)
	polls := w.platform.Traffic().Calls[polltest.Activity]
	seen := w.platform.WaitFor(t, "more looks", func(s polltest.Traffic) bool {
		return s.Calls[polltest.Activity] > polls+5
	})
	if seen.Acked() != 1 || len(seen.Replies) != 1 {
		t.Errorf("acknowledged %v after replies %v", seen.Acks, seen.Texts())
	}
}

func TestFailuresAndEmptinessAreReplies(t *testing.T) {
	for name, c := range map[string]struct {
		agent agentFunc
		want  string
	}{
		"empty": {func(context.Context, mailroom.Session) error { return nil }, "(codex returned empty output)"},
		"blank": {func(ctx context.Context, s mailroom.Session) error {
			return s.Stream(ctx, " \n")
		}, "(codex returned empty output)"},
		"failed": {func(context.Context, mailroom.Session) error { return errors.New("no") }, "(codex exit=-1)"},
		"failed with text": {func(ctx context.Context, s mailroom.Session) error {
			return errors.Join(s.Stream(ctx, "so far\n"), errors.New("no"))
		}, "so far\n(codex exit=-1)"},
		"an outage": {func(context.Context, mailroom.Session) error {
			return &mailroom.Failure{Class: mailroom.ClassUnavailable, Err: errors.New("no")}
		}, "(codex exit=-1)"},
		"exit code": {exitingAgent(`{"exit_code":3,"duration_ms":5}`), "(codex exit=3)"},
		"no model": {exitingAgent(`{"exit_code":1,"class":"unavailable","stderr":"key sk-1 in /srv/x","duration_ms":5}`),
			"(codex failed: its model, or another service that it needs, is unavailable or rate limited; try again later)\n(codex exit=1)"},
		"not set up": {exitingAgent(`{"exit_code":1,"class":"permanent","stderr":"key sk-1 in /srv/x","duration_ms":5}`),
			"(codex failed: its program refused this message; the same message will fail again)\n(codex exit=1)"},
		"an error": {exitingAgent(`{"exit_code":2,"class":"transient","stderr":"key sk-1 in /srv/x","duration_ms":5}`),
			"(codex failed: its program ended with an error; another try may succeed)\n(codex exit=2)"},
		"signal": {exitingAgent(`{"signal":"killed","duration_ms":5}`), "(codex exit=-1)"},
		"timed out": {exitingAgent(
			`{"exit_code":0,"stopped":"too long","limit":"total_timeout","limit_ms":600000,"duration_ms":5}`),
			"(codex timed out after 600s)\n(codex exit=-1)"},
		"ran to long": {exitingAgent(
			`{"signal":"killed","stopped":"x","limit":"idle_timeout","limit_ms":1500,"duration_ms":5}`),
			"(codex timed out after 2s)\n(codex exit=-1)"},
	} {
		t.Run(name, func(t *testing.T) {
			runs := 0
			w := newFixture(t, agentFunc(func(ctx context.Context, s mailroom.Session) error {
				runs++
				return c.agent(ctx, s)
			})).start()
			w.platform.Add(polltest.Canvas("a-1", "hello"))
			seen := w.platform.WaitAcked(t, 1)
			if diff := cmp.Diff([]string{"canvas:ws-1: " + c.want}, seen.Texts()); diff != "" || runs != 1 {
				t.Errorf("after %d runs: %s", runs, diff)
			}
		})
	}
}

// exitingAgent returns an agent whose program exited as described by body.
func exitingAgent(body string) agentFunc {
	return func(ctx context.Context, s mailroom.Session) error {
		step := mailroom.Step{Entries: []mailroom.AgentEntry{{Kind: "x.exec.exited", Body: []byte(body)}}, NoProgress: true}
		return errors.Join(s.Append(ctx, step), errors.New("the command failed"))
	}
}

func TestTheRunDeadlineIsReportedAsATimeout(t *testing.T) {
	// parseDeadline relies on the engine's error message.
	w := newFixture(t, agentFunc(func(ctx context.Context, s mailroom.Session) error { <-ctx.Done(); return ctx.Err() }))
	w.deadline = 1100 * time.Millisecond
	w.start()
	w.platform.Add(polltest.Canvas("a-1", "hello"))
	seen := w.platform.WaitAcked(t, 1)
	if diff := cmp.Diff([]string{"canvas:ws-1: (codex timed out after 1s)\n(codex exit=-1)"}, seen.Texts()); diff != "" {
		t.Error(diff)
	}
}

func TestChatsRunInParallelAndEachInOrder(t *testing.T) {
	const each = 20
	var mu sync.Mutex
	met := make(chan struct{})
	began := map[string]bool{}
	order := map[string][]string{}
	agent := agentFunc(func(ctx context.Context, s mailroom.Session) error {
		input, err := s.Input(ctx)
		if err != nil {
			return err
		}
		mu.Lock()
		began[s.Run().Thread] = true
		if len(began) == 2 && len(order) == 0 {
			close(met)
		}
		mu.Unlock()
		select {
		case <-met: // both chats have a running agent
		case <-ctx.Done():
			return ctx.Err()
		}
		mu.Lock()
		order[s.Run().Thread] = append(order[s.Run().Thread], input[0].Text)
		mu.Unlock()
		return s.Stream(ctx, input[0].Text)
	})
	w := newFixture(t, agent).start()
	var want []string
	for i := range each {
		want = append(want, fmt.Sprint(i))
		w.platform.Add(polltest.Canvas("c"+rowID(i), fmt.Sprint(i)), polltest.Peer("p"+rowID(i), "peer", fmt.Sprint(i)))
	}
	seen := w.platform.WaitAcked(t, 2*each)
	got := map[string][]string{}
	for _, r := range seen.Replies {
		got[r.To] = append(got[r.To], r.Text)
	}
	if diff := cmp.Diff(map[string][]string{"canvas:ws-1": want, "peer:peer": want}, got); diff != "" {
		t.Error(diff)
	}
}

func TestAQuestionIsAnsweredByTheNextCanvasMessage(t *testing.T) {
	w := newFixture(t, agentFunc(func(ctx context.Context, s mailroom.Session) error {
		tickets, err := s.Wait(ctx, false, mailroom.Ask{Name: "q", Kind: mailroom.TicketInput, Prompt: "Which one?"})
		if err != nil {
			return err
		}
		return s.Stream(ctx, "took "+string(tickets[0].Answer))
	})).start()
	w.platform.Add(polltest.Canvas("a-1", "hello"))
	w.platform.WaitFor(t, "the question", func(s polltest.Traffic) bool {
		return slices.Equal(s.Texts(), []string{"canvas:ws-1: (codex asks) Which one?\nYour next message is the answer."})
	})
	if acks := w.platform.Traffic().Acks; len(acks) > 0 {
		t.Errorf("acknowledged %v before there was a reply", acks)
	}
	w.platform.Add(polltest.Canvas("a-2", "the red one"))
	seen := w.platform.WaitAcked(t, 2)
	if last := seen.Texts()[len(seen.Texts())-1]; len(seen.Replies) != 2 || !strings.Contains(last, "the red one") {
		t.Errorf("replies %q", seen.Texts())
	}
}

func TestAnApprovalSaysHowToDecide(t *testing.T) {
	w := newFixture(t, agentFunc(func(ctx context.Context, s mailroom.Session) error {
		_, err := s.Wait(ctx, false, mailroom.Ask{Name: "q", Kind: mailroom.TicketApproval, Prompt: "May I?", Action: "rm",
			Arguments: []byte(`{"path":"x"}`)})
		return err
	}))
	w.options.Command = "mailroom --data d"
	w.start()
	w.platform.Add(polltest.Peer("a-1", "p", "hello"))
	seen := w.platform.WaitFor(t, "the question", func(s polltest.Traffic) bool { return len(s.Replies) > 0 })
	got := seen.Texts()[0]
	for _, want := range []string{"canvas:ws-1: (codex asks) May I?\nrm {\"path\":\"x\"}\n",
		": mailroom --data d approve ", ": mailroom --data d deny "} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
}

func TestInvalidOptionsAreRefused(t *testing.T) {
	good := poll.Options{URL: "http://127.0.0.1:1", Workspace: "w", Agent: "a", Token: "t"}
	if _, err := poll.New(good); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*poll.Options){
		"no url": func(o *poll.Options) { o.URL = "" }, "no scheme": func(o *poll.Options) { o.URL = "example.org" },
		"a password": func(o *poll.Options) { o.URL = "http://u:p@example.org" }, "ftp": func(o *poll.Options) {
			o.URL = "ftp://example.org"
		},
		"no workspace": func(o *poll.Options) { o.Workspace = "" }, "no agent": func(o *poll.Options) { o.Agent = "" },
		"no token": func(o *poll.Options) { o.Token = "" }, "a broken token": func(o *poll.Options) {
			o.Token = "hush\nhush"
		},
	} {
		o := good
		spoil(&o)
		if _, err := poll.New(o); err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
