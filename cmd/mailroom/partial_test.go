package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/api"
	"mailroom/client"
	"mailroom/entry"
)

// breaking has agents whose first attempt ends early or without a reply, each in another way. The second attempt of
// flaky, slow, stuck and mute replies "whole". broken and useless fail each time, and silent never writes text.
const breaking = `shutdown_grace = "10ms"
[agents.flaky]
kind = "exec"
command = ["sh", "-c", "test $MAILROOM_ATTEMPT != 1 || { printf 'half '; kill -9 $$; }; printf whole"]
[agents.broken]
kind = "exec"
command = ["sh", "-c", "printf 'half '; exit 3"]
[agents.useless]
kind = "exec"
command = ["false"]
[agents.silent]
kind = "exec"
command = ["true"]
[agents.slow]
kind = "exec"
command = ["sh", "-c", "test $MAILROOM_ATTEMPT != 1 || { printf 'early '; sleep 1.3; printf 'late '; sleep 1000; }; printf whole"]
[agents.stuck]
kind = "exec"
command = ["sh", "-c", "test $MAILROOM_ATTEMPT != 1 || { printf 'so far '; sleep 1000; }; printf whole"]
[agents.mute]
kind = "exec"
command = ["sh", "-c", "test $MAILROOM_ATTEMPT != 1 || sleep 1000; printf whole"]
`

// redirectTransport sends requests to the current address of the server.
type redirectTransport struct{ host atomic.Pointer[string] }

func (f *redirectTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Host = *f.host.Load()
	r.Host = r.URL.Host
	return http.DefaultTransport.RoundTrip(r)
}

// streamReader records what one reader received of a run, across restarts: "TEXT" for a message,
// "TEXT…" for a partial one.
type streamReader struct {
	t     *testing.T
	run   string
	got   []string
	kinds []string
	seen  map[string]bool // ids of messages
	live  chan string     // the live text after each delta
	ended chan struct{}
}

// newStreamReader starts to follow a run until its end.
func newStreamReader(t *testing.T, c *client.Client, run string) *streamReader {
	r := &streamReader{t: t, run: run, seen: map[string]bool{}, live: make(chan string, 100), ended: make(chan struct{})}
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	go func() { // ends with the run; want waits for it
		defer cancel()
		defer close(r.ended)
		text := ""
		for ev, err := range c.Follow(ctx, client.FollowQuery{Run: run, Until: client.UntilSettled}) {
			switch {
			case err != nil:
				t.Errorf("run %s: %v", run, err)
			case ev.Delta != nil:
				text = text[:min(len(text), ev.Delta.Offset)] + ev.Delta.Text
				r.live <- text
			case ev.Entry.Kind == entry.KindMessage && ev.Entry.Attempt > 0:
				r.message(ev.Entry)
			default:
				r.kinds = append(r.kinds, ev.Entry.Kind)
				if ev.Entry.Kind == "x.exec.started" {
					r.live <- "started"
				}
			}
		}
	}()
	return r
}

func (r *streamReader) message(e *mailroom.Entry) {
	var m mailroom.Message
	if err := e.Decode(&m); err != nil {
		r.t.Error(err)
	}
	if r.seen[m.ID] {
		r.t.Errorf("message %s received twice", m.ID)
	}
	r.seen[m.ID] = true
	if m.Partial {
		m.Text += "…"
	}
	r.got = append(r.got, m.Text)
	r.kinds = append(r.kinds, entry.KindMessage)
}

// waitText waits for live text, or with "started" for the start of a command.
func (r *streamReader) waitText(text string) {
	r.t.Helper()
	late := time.After(waitTimeout)
	for {
		select {
		case got := <-r.live:
			if got == text {
				return
			}
		case <-late:
			r.t.Fatalf("timeout waiting for run %s to write %q", r.run, text)
		}
	}
}

// want waits for the end of the run and compares its row and the received messages. Alternatives of a
// message are separated by "|".
func (r *streamReader) want(c *client.Client, status mailroom.Status, reply string, messages ...string) {
	r.t.Helper()
	<-r.ended
	for i, m := range messages {
		if i < len(r.got) && strings.Contains("|"+m+"|", "|"+r.got[i]+"|") {
			messages[i] = r.got[i]
		}
	}
	if diff := cmp.Diff(messages, r.got); diff != "" {
		r.t.Errorf("run %s, messages (-want +got):\n%s", r.run, diff)
	}
	run, err := c.Run(r.t.Context(), r.run)
	if err != nil {
		r.t.Fatal(err)
	}
	got := ""
	if run.Reply != nil {
		got = *run.Reply
	}
	if run.Status != status || got != reply || (run.Reply == nil) != (reply == "") {
		r.t.Errorf("run %s is %s with reply %q, want %s with %q", r.run, run.Status, got, status, reply)
	}
	if done := run.Progress == 1; done != (status == mailroom.StatusCompleted) {
		r.t.Errorf("run %s is %s with progress %v", r.run, status, run.Progress)
	}
	// The partial text of an attempt comes before the entry of its end.
	for i, kind := range r.kinds[1:] {
		if kind == entry.KindMessage && r.kinds[i] == entry.KindRescheduled {
			r.t.Errorf("run %s: a message follows the end of its attempt: %v", r.run, r.kinds)
		}
	}
}

func TestTextOfAnInterruptedAttemptIsKeptAndNotRepeated(t *testing.T) {
	h, p, where := newFixture(t, breaking), &process{}, &redirectTransport{}
	begin := func() {
		h.process(p)
		host := strings.TrimPrefix(p.url, "http://")
		where.host.Store(&host)
	}
	begin()
	token, err := h.dir.Token()
	h.must(err)
	c := client.New("http://mailroom", token, client.WithHTTPClient(&http.Client{Transport: where}),
		client.WithBackoff(10*time.Millisecond, 100*time.Millisecond))
	send := func(agent string, attempts int) *streamReader {
		t.Helper()
		sent, err := c.Submit(t.Context(), api.Submit{Thread: fmt.Sprintf("%s-%d", agent, time.Now().UnixNano()),
			Agent: agent, Text: "hello", MaxAttempts: &attempts})
		h.must(err)
		return newStreamReader(t, c, sent.Run)
	}
	slow, mute, stuck := send("slow", 5), send("mute", 5), send("stuck", 5)
	send("flaky", 5).want(c, mailroom.StatusCompleted, "whole", "half …", "whole")
	send("broken", 2).want(c, mailroom.StatusFailed, "", "half …", "half …")
	send("useless", 1).want(c, mailroom.StatusFailed, "")
	send("silent", 1).want(c, mailroom.StatusCompleted, "")
	stuck.waitText("so far ")
	if _, err := c.CancelRun(t.Context(), stuck.run); err != nil {
		t.Fatal(err)
	}
	stuck.want(c, mailroom.StatusCancelled, "", "so far …")

	// After a kill, the text older than a second is kept.
	mute.waitText("started")
	slow.waitText("early late ")
	p.kill()
	begin()
	slow.want(c, mailroom.StatusCompleted, "whole", "early …|early late …", "whole")
	mute.want(c, mailroom.StatusCompleted, "whole", "whole")

	// After a shutdown, which releases the runs, all text is kept.
	stuck, mute = send("stuck", 5), send("mute", 5)
	stuck.waitText("so far ")
	mute.waitText("started")
	h.must(p.shutdown())
	begin()
	stuck.want(c, mailroom.StatusCompleted, "whole", "so far …", "whole")
	mute.want(c, mailroom.StatusCompleted, "whole", "whole")

	run, err := c.Run(t.Context(), slow.run)
	h.must(err)
	page, err := c.Messages(t.Context(), run.Thread, client.MessagesQuery{})
	h.must(err)
	if got := len(page.Items); got != 2 || page.Items[1].Text != "whole" {
		t.Errorf("the transcript has %+v, want the question and the whole reply", page.Items)
	}
}
