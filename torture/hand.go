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
)

// hand is one user: it does one operation after the other. It belongs to one
// goroutine.
type hand struct {
	home    *torture
	dice    *rand.Rand
	at      target
	client  *client.Client
	cycle   int
	tagged  bool // the server has the agent that walks through all points
	purging bool // what was answered long ago is not repeated: its key may be gone
	long    bool // some runs talk for seconds
	pace    int  // pauses are up to so many milliseconds long
	slow    bool // some runs hear nothing for longer than a lease
}

// work does what is asked for at random until ctx ends. An operation that has
// begun is seen to its end: its answer, or that there is none.
func (h *hand) work(ctx context.Context) {
	for ctx.Err() == nil {
		if o := h.home.journal.unansweredSubmit(h.tagged); o != nil {
			if h.repeat(o).Outcome == unknown {
				pause(ctx, 20*time.Millisecond)
			}
			continue
		}
		h.any(ctx)
		pause(ctx, time.Duration(h.dice.IntN(h.pace))*time.Millisecond)
	}
}

// any does one of all operations; submits are half of them.
func (h *hand) any(ctx context.Context) {
	switch n := h.dice.IntN(100); {
	case n < 46:
		h.submit(h.thread())
	case n < 52:
		h.repeatTaken()
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
	case n < 98:
		h.decideWithSubmit(ctx)
	default:
		h.gone(ctx)
	}
}

// do journals one operation around its call.
func (h *hand) do(o *operation, call func(ctx context.Context) error) *operation {
	o.Cycle = h.cycle
	h.home.journal.begin(o)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	h.home.journal.end(o, call(ctx))
	h.home.counts.operation(o)
	return o
}

func one[T any](h *hand, list []T) T { return list[h.dice.IntN(len(list))] }

func (h *hand) thread() string {
	if h.tagged && h.dice.IntN(2) == 0 {
		return one(h, h.home.plots.torture)
	}
	if h.dice.IntN(12) == 0 {
		return one(h, h.home.plots.tour)
	}
	return one(h, h.home.plots.echo)
}

// words are what a message says beside the mark by which it is found again.
func (h *hand) words() string {
	n := 1 + h.dice.IntN(8)
	if h.dice.IntN(10) == 0 {
		n = 60
	}
	return strings.TrimSpace(strings.Repeat("wörd ", n))
}

// submit hands a message in, in any mode, with a key or without.
func (h *hand) submit(thread string) {
	in := &api.Submit{Thread: thread, Text: fmt.Sprintf("m%d.%d %s", h.home.journal.next(), h.dice.IntN(1<<30), h.words())}
	in.Mode = one(h, []mailroom.Mode{
		"", "", "", mailroom.ModeQueue, mailroom.ModeQueue, mailroom.ModeQueue, mailroom.ModeSteer, mailroom.ModeSteer,
		mailroom.ModeInterrupt, mailroom.ModeLatest, mailroom.ModeCollect, mailroom.ModeReject,
	})
	if h.home.busy(thread) {
		in.Mode = mailroom.ModeLatest // what nobody waits for need not be worked off at the end
	}
	switch {
	case slices.Contains(h.home.plots.torture, thread):
		in.Agent = tortureAgent
		in.Options = h.script()
	case slices.Contains(h.home.plots.tour, thread):
		in.Agent = "tour"
	}
	if h.dice.IntN(100) < 60 {
		in.Key = fmt.Sprintf("k%d-%d", h.home.journal.next(), h.dice.Int())
	}
	if h.dice.IntN(100) < 20 {
		p := one(h, []int{0, 100, 128, 200})
		in.Priority = &p
	}
	if (in.Mode == "" || in.Mode == mailroom.ModeQueue) && h.dice.IntN(100) < 10 {
		at := time.Now().Add(time.Duration(h.dice.IntN(400)) * time.Millisecond).UTC().Truncate(time.Microsecond)
		in.NotBefore = &at
	}
	h.send(&operation{Kind: "submit", Thread: thread, Text: in.Text, Submit: in})
}

// send does a submit. The client adds a key to those that have none, so those
// go by hand.
func (h *hand) send(o *operation) *operation {
	return h.do(o, func(ctx context.Context) error {
		var out mailroom.Submitted
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

func (h *hand) post(ctx context.Context, in *api.Submit) (out mailroom.Submitted, err error) {
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
	defer resp.Body.Close() // it was read, or is of no use
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

// repeat sends what stayed unanswered again, under its key.
func (h *hand) repeat(o *operation) *operation {
	return h.send(&operation{Kind: "repeat", Thread: o.Thread, Text: o.Text, Submit: o.Submit, Again: o.N})
}

// repeatTaken sends again what was answered.
func (h *hand) repeatTaken() {
	o := h.taken()
	if o == nil || o.Submit.Key == "" || h.purging || !h.tagged && o.Submit.Agent == tortureAgent {
		return
	}
	h.repeat(o)
}

// taken is a submit of late that was answered, nil if the dice find none.
func (h *hand) taken() *operation {
	if list := h.home.journal.taken(h.thread()); len(list) > 0 {
		return one(h, list)
	}
	return nil
}

// script is what a run of the torture agent does.
func (h *hand) script() json.RawMessage {
	script := map[string]any{
		"words": h.dice.IntN(12), "pace_ms": h.dice.IntN(4), "to": one(h, h.home.plots.hub),
	}
	scenes := []string{"say"}
	for range h.dice.IntN(4) {
		scenes = append(scenes, one(h, []string{
			"say", "say", "once", "once", "sure", "look", "ask", "question", "timer", "child", "note", "note", "fail", "never", "stubborn",
		}))
	}
	if h.long && h.dice.IntN(3) == 0 {
		script["words"], script["pace_ms"] = 400, 10
	}
	if h.slow && h.dice.IntN(4) > 0 {
		scenes = one(h, [][]string{{"deaf"}, {"deaf", "say"}, {"say", "deaf", "note"}})
	}
	if slices.Contains(scenes, "stubborn") {
		script["words"], script["pace_ms"] = 8, 40
	}
	script["scenes"] = scenes
	raw, err := json.Marshal(script)
	if err != nil {
		panic(err) // plain data
	}
	return raw
}
