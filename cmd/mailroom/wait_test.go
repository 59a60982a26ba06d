package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/app/config"
	"mailroom/app/node"
	"mailroom/engine"
	"mailroom/store/memory"
)

// serveAgents runs a node with these agents in this process, on the data folder of h.
func (h *fixture) serveAgents(agents map[string]mailroom.AgentFunc) {
	h.t.Helper()
	held, err := h.dir.Acquire(h.t.Context())
	h.must(err)
	token, err := held.EnsureToken()
	h.must(err)
	hosted := map[string]engine.Agent{}
	for name, f := range agents {
		hosted[name] = engine.Agent{Agent: f}
	}
	settings := config.Default(nil)
	settings.DefaultAgent = "asker"
	n, err := node.New(h.t.Context(), node.Options{
		Store: memory.New(), Config: settings, Token: token, Files: h.dir.Files(), Agents: hosted,
		Log: slog.New(slog.NewTextHandler(h.t.Output(), nil)),
	})
	h.must(err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	h.must(err)
	h.must(held.WriteAddress("http://"+ln.Addr().String(), ""))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx, ln, nil) }()
	h.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			h.t.Error(err)
		}
		if err := held.Release(); err != nil {
			h.t.Error(err)
		}
	})
}

func (h *fixture) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// askingAgent returns an agent that waits for one ticket and replies with its outcome.
func askingAgent(a mailroom.Ask) mailroom.AgentFunc {
	return func(ctx context.Context, s mailroom.Session) error {
		got, err := s.Wait(ctx, false, a)
		if err != nil {
			return err
		}
		return s.Stream(ctx, string(got[0].State)+" "+string(got[0].Answer))
	}
}

func TestAnswersReachTheRunThatAsks(t *testing.T) {
	h := newFixture(t, "")
	h.serveAgents(map[string]mailroom.AgentFunc{
		"asker":   askingAgent(mailroom.Ask{Name: "when", Kind: mailroom.TicketInput, Prompt: "When?"}),
		"watcher": askingAgent(mailroom.Ask{Name: "build", Kind: mailroom.TicketEvent, Prompt: "the build"}),
	})
	var out bytes.Buffer
	for _, test := range []struct {
		args []string
		code int
		want string // substring of the output
	}{
		{[]string{"send", "--thread", "t", "hello"}, exitWaiting, "mailroom answer "},
		{[]string{"answer", "t", "on", "Friday"}, exitDone, "answered"},
		{[]string{"attach", "t"}, exitDone, `decided "on Friday"`},
		{[]string{"send", "--thread", "u", "--agent", "watcher", "hello"}, exitWaiting, "event build of run"},
		{[]string{"answer", "u", "--json", ` {"ok": true} `}, exitDone, "answered"},
		{[]string{"attach", "u"}, exitDone, `decided {"ok":true}`},
		{[]string{"send", "--thread", "v", "hello"}, exitWaiting, "When?"},
		{[]string{"send", "--thread", "v", "on Monday"}, exitDone, "on Monday"},
	} {
		out.Reset()
		code, stderr := h.run(t.Context(), &out, test.args...)
		if all := out.String() + stderr; code != test.code || !strings.Contains(all, test.want) {
			t.Errorf("mailroom %s: exit code %d and\n%s\nwant %d and %q", strings.Join(test.args, " "), code, all,
				test.code, test.want)
		}
	}
}

func TestAnUndecidedWaitIsFollowedUntilItExpires(t *testing.T) {
	h := newFixture(t, "")
	h.serveAgents(map[string]mailroom.AgentFunc{
		"asker":  askingAgent(mailroom.Ask{Name: "soon", Kind: mailroom.TicketTimer, After: 50 * time.Millisecond}),
		"parent": parent,
	})
	for agent, want := range map[string]string{"asker": "expired \n", "parent": "the child: expired \n"} {
		var out bytes.Buffer
		code, stderr := h.run(t.Context(), &out, "send", "--agent", agent, "hello")
		if code != exitDone || out.String() != want {
			t.Errorf("send to %s: exit code %d, %q, want %d, %q\n%s", agent, code, out.String(), exitDone, want, stderr)
		}
	}
}

// The stream ends at a wait, and the wait may end before the command asks what the run waits for.
func TestTheReplyAfterAWaitThatEndsAtOnceIsPrinted(t *testing.T) {
	h := newFixture(t, "")
	agents := map[string]mailroom.AgentFunc{}
	for ms := range 60 {
		agents[fmt.Sprint("asker-", ms)] = askingAgent(mailroom.Ask{Name: "soon", Kind: mailroom.TicketTimer,
			After: time.Duration(ms+1) * time.Millisecond / 4})
	}
	h.serveAgents(agents)
	for agent := range agents {
		var out bytes.Buffer
		code, stderr := h.run(t.Context(), &out, "send", "--agent", agent, "hello")
		if want := "expired \n"; code != exitDone || out.String() != want {
			t.Fatalf("exit code %d, %q, want %d, %q\n%s", code, out.String(), exitDone, want, stderr)
		}
	}
}

// parent is an agent that waits for a run of the asker and replies with its reply.
func parent(ctx context.Context, s mailroom.Session) error {
	send := mailroom.Send{Name: "child", Agent: "asker", Parts: mailroom.Text("wait"), Answer: mailroom.AnswerWait}
	if s.Run().Asked == 0 {
		if err := s.Append(ctx, mailroom.Step{Sends: []mailroom.Send{send}}); err != nil {
			return err
		}
	}
	got, err := s.Wait(ctx, false, mailroom.Ask{Name: "child"})
	if err != nil {
		return err
	}
	var end struct{ Reply string }
	if err := json.Unmarshal(got[0].Answer, &end); err != nil {
		return err
	}
	return s.Stream(ctx, "the child: "+end.Reply)
}

func TestAQuestionOfAChildIsShown(t *testing.T) {
	h := newFixture(t, "")
	h.serveAgents(map[string]mailroom.AgentFunc{
		"asker":  askingAgent(mailroom.Ask{Name: "when", Kind: mailroom.TicketInput, Prompt: "When?"}),
		"parent": parent,
	})
	for _, thread := range []string{"t", "u"} {
		code, stderr := h.run(t.Context(), io.Discard, "send", "--thread", thread, "--agent", "parent", "hello")
		if code != exitWaiting || !strings.Contains(stderr, "input when of run") {
			t.Fatalf("send: exit code %d, want %d and the question:\n%s", code, exitWaiting, stderr)
		}
	}
	var out bytes.Buffer
	open := func() (tickets api.Page[api.Ticket]) {
		out.Reset()
		if code, stderr := h.run(t.Context(), &out, "tickets", "--filter", "state:open kind:input", "-o",
			"json"); code != exitDone {
			t.Fatalf("tickets: exit code %d: %s", code, stderr)
		}
		h.must(json.Unmarshal(out.Bytes(), &tickets))
		return tickets
	}
	asked := open().Items // newest first
	if len(asked) != 2 {
		t.Fatalf("%d open tickets, want 2", len(asked))
	}
	if code, stderr := h.run(t.Context(), io.Discard, "answer", asked[1].ID, "now"); code != exitDone {
		t.Fatalf("answer: exit code %d: %s", code, stderr)
	}
	out.Reset()
	if code, stderr := h.run(t.Context(), &out, "attach", "t"); code != exitDone ||
		out.String() != "the child: decided \"now\"\n" {
		t.Errorf("attach: exit code %d, %q\n%s", code, out.String(), stderr)
	}
	out.Reset()
	if code, stderr := h.run(t.Context(), &out, "runs", "--filter", "thread:u", "-o", "json"); code != exitDone {
		t.Fatalf("runs: exit code %d: %s", code, stderr)
	}
	var runs api.Page[api.Run]
	h.must(json.Unmarshal(out.Bytes(), &runs))
	if code, stderr := h.run(t.Context(), io.Discard, "run", "cancel", "--children", runs.Items[0].ID); code != exitDone {
		t.Fatalf("cancel: exit code %d: %s", code, stderr)
	}
	if left := open().Items; len(left) != 0 {
		t.Errorf("open tickets after cancel --children: %+v, want none", left)
	}
}
