package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/client"
	"mailroom/store"
)

// user is one simulated user, which does one operation after the other. One goroutine owns it.
type user struct {
	torture *torture
	dice    *rand.Rand
	at      target
	client  *client.Client
	cycle   int
	tagged  bool // the server has the agent that visits all points
	purging bool // answered submits are not repeated: their keys may be purged
	long    bool // some runs stream for seconds
	pace    int  // longest pause, in milliseconds
	slow    bool // some runs are silent for longer than a lease
}

// work does random operations until ctx ends. At the end it waits for the outcome of the operation that it has
// started.
func (h *user) work(ctx context.Context) {
	for ctx.Err() == nil {
		if o := h.torture.journal.unansweredSubmit(h.tagged); o != nil {
			if h.retryUnanswered(o).Outcome == unknown {
				pause(ctx, 20*time.Millisecond)
			}
			continue
		}
		h.doRandom(ctx)
		pause(ctx, time.Duration(h.dice.IntN(h.pace))*time.Millisecond)
	}
}

// doRandom does one random operation; half of them are submits.
func (h *user) doRandom(ctx context.Context) {
	switch n := h.dice.IntN(100); {
	case n < 46:
		h.submit(h.thread())
	case n < 52:
		h.repeatAnswered()
	case n < 58:
		h.edit()
	case n < 63:
		h.retract()
	case n < 70:
		h.cancel()
	case n < 72:
		h.interrupt()
	case n < 77:
		h.retry()
	case n < 81:
		h.wait(ctx)
	case n < 91:
		h.read()
	case n < 95:
		h.list()
	case n < 97:
		h.decideWithSubmit(ctx)
	case n < 98:
		h.schedule()
	default:
		h.deleteThread(ctx)
	}
}

// do records one operation in the journal around its call.
func (h *user) do(o *operation, call func(ctx context.Context) error) *operation {
	o.Cycle = h.cycle
	h.torture.journal.begin(o)
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	h.torture.journal.end(o, call(ctx))
	h.torture.counts.operation(o)
	return o
}

func pick[T any](h *user, list []T) T { return list[h.dice.IntN(len(list))] }

func (h *user) thread() string {
	if h.tagged && h.dice.IntN(2) == 0 {
		return pick(h, h.torture.threads.torture)
	}
	if h.dice.IntN(12) == 0 {
		return pick(h, h.torture.threads.tour)
	}
	return pick(h, h.torture.threads.echo)
}

// text returns a message text without the number that identifies it.
func (h *user) text() string {
	n := 1 + h.dice.IntN(8)
	if h.dice.IntN(10) == 0 {
		n = 60
	}
	return strings.TrimSpace(strings.Repeat("wörd ", n))
}

// submit submits a message in a random mode, with or without a key.
func (h *user) submit(thread string) {
	in := &api.Submit{Thread: thread, Text: fmt.Sprintf("m%d.%d %s", h.torture.journal.next(),
		h.dice.IntN(1<<30), h.text())}
	in.Mode = pick(h, []mailroom.Mode{
		"", "", "", mailroom.ModeQueue, mailroom.ModeQueue, mailroom.ModeQueue, mailroom.ModeSteer, mailroom.ModeSteer,
		mailroom.ModeInterrupt, mailroom.ModeLatest, mailroom.ModeCollect, mailroom.ModeReject,
	})
	if h.torture.busy(thread) {
		in.Mode = mailroom.ModeLatest // supersedes the queue, which shortens the end
	}
	switch {
	case slices.Contains(h.torture.threads.torture, thread):
		in.Agent = tortureAgent
		in.Options = h.script()
	case slices.Contains(h.torture.threads.tour, thread):
		in.Agent = "tour"
	}
	if h.dice.IntN(100) < 60 {
		in.Key = fmt.Sprintf("k%d-%d", h.torture.journal.next(), h.dice.Int())
	}
	if h.dice.IntN(100) < 20 {
		p := pick(h, []int{0, 100, 128, 200})
		in.Priority = &p
	}
	if (in.Mode == "" || in.Mode == mailroom.ModeQueue) && h.dice.IntN(100) < 10 {
		at := time.Now().Add(time.Duration(h.dice.IntN(400)) * time.Millisecond).UTC().Truncate(time.Microsecond)
		in.NotBefore = &at
	}
	h.send(&operation{Kind: "submit", Thread: thread, Text: in.Text, Submit: in})
}

// send sends a submit. The client adds a key to a submit without one, so such a submit is posted
// directly.
func (h *user) send(o *operation) *operation {
	return h.do(o, func(ctx context.Context) error {
		var out store.Submitted
		var err error
		if o.Submit.Key != "" {
			out, err = h.client.Submit(ctx, *o.Submit)
		} else {
			out, err = h.post(ctx, o.Submit)
		}
		if err == nil {
			o.Submitted, o.Run, o.Message = &out, out.Run, out.Message
		}
		return err
	})
}

func (h *user) post(ctx context.Context, in *api.Submit) (out store.Submitted, err error) {
	noAnswer := func(err error) error { return mailroom.Errorf(mailroom.CodeUnavailable, "no answer: %w", err) }
	raw, err := json.Marshal(in)
	if err != nil {
		return out, err
	}
	to := h.at.url + "/v1/threads/" + url.PathEscape(in.Thread) + "/messages"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(raw))
	if err != nil {
		return out, err
	}
	req.Header.Set("Authorization", "Bearer "+h.at.token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := h.at.http.Do(req)
	if err != nil {
		return out, noAnswer(err)
	}
	defer resp.Body.Close() // the body was read, or is useless
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return out, noAnswer(err)
	}
	if resp.StatusCode != http.StatusAccepted {
		var p api.Problem
		if err := json.Unmarshal(answer, &p); err != nil {
			return out, noAnswer(err)
		}
		return out, p.Err(0)
	}
	if err := json.Unmarshal(answer, &out); err != nil {
		return out, noAnswer(err)
	}
	return out, nil
}

// retryUnanswered sends an unanswered submit again under its key.
func (h *user) retryUnanswered(o *operation) *operation {
	return h.send(&operation{Kind: "repeat", Thread: o.Thread, Text: o.Text, Submit: o.Submit, Again: o.N})
}

// repeatAnswered sends an answered submit again.
func (h *user) repeatAnswered() {
	o := h.recentSubmit()
	if o == nil || o.Submit.Key == "" || h.purging || !h.tagged && o.Submit.Agent == tortureAgent {
		return
	}
	h.retryUnanswered(o)
}

// recentSubmit returns a recently answered submit, or nil.
func (h *user) recentSubmit() *operation {
	if list := h.torture.journal.recentSubmits(h.thread()); len(list) > 0 {
		return pick(h, list)
	}
	return nil
}

// script returns options for a run of the torture agent.
func (h *user) script() json.RawMessage {
	script := map[string]any{
		"words": h.dice.IntN(12), "pace_ms": h.dice.IntN(4), "to": pick(h, h.torture.threads.hub),
	}
	scenes := []string{"say"}
	for range h.dice.IntN(4) {
		scenes = append(scenes, pick(h, []string{
			"say", "say", "once", "once", "sure", "look", "ask", "question", "timer", "child", "note", "note", "fail", "never",
			"stubborn",
		}))
	}
	if h.long && h.dice.IntN(3) == 0 {
		script["words"], script["pace_ms"] = 400, 10
	}
	if h.slow && h.dice.IntN(4) > 0 {
		scenes = pick(h, [][]string{{"deaf"}, {"deaf", "say"}, {"say", "deaf", "note"}})
	}
	if slices.Contains(scenes, "stubborn") {
		script["words"], script["pace_ms"] = 8, 40
	}
	script["scenes"] = scenes
	raw, err := json.Marshal(script)
	if err != nil {
		panic(err) // cannot fail: the values are plain data
	}
	return raw
}
