package killpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"mailroom"
)

// Conform returns the conformance agent in Go. The text of a run's first message is a script: a JSON list of
// operations, each a list of a verb and its arguments; docs/workers.md describes them. Conform performs them through
// its session. dir has the file notes, to which the agent appends a line for each effect and note, and files that open
// gates.
func Conform(dir string) mailroom.Agent {
	return mailroom.AgentFunc(func(ctx context.Context, s mailroom.Session) error {
		input, err := s.Input(ctx)
		if err != nil {
			return err
		}
		var script []operation
		if err := json.Unmarshal([]byte(input[0].Text), &script); err != nil {
			return &mailroom.Failure{Class: mailroom.ClassPermanent, Err: fmt.Errorf("read the script: %w", err)}
		}
		c := &conformRun{dir: dir, s: s, run: s.Run().ID, attempt: s.Run().Attempt}
		if err := c.performAll(ctx, script); err != nil {
			if ctx.Err() != nil && !errors.Is(err, mailroom.ErrParked) {
				return context.Cause(ctx)
			}
			return err
		}
		return s.Stream(ctx, strings.Join(c.values, " "))
	})
}

// operation is a verb and its arguments.
type operation []json.RawMessage

// text returns argument n, "" if it is absent or no text.
func (op operation) text(n int) string {
	var s string
	if n >= len(op) || json.Unmarshal(op[n], &s) != nil {
		return ""
	}
	return s
}

// read decodes argument n, if it is there. Scripts are checked before they are sent.
func (op operation) read(n int, to any) {
	if n < len(op) {
		if err := json.Unmarshal(op[n], to); err != nil {
			panic(fmt.Sprintf("argument %d of %s: %v", n, op[0], err))
		}
	}
}

// conformRun is one attempt of a run.
type conformRun struct {
	dir     string
	s       mailroom.Session
	run     string
	attempt int
	values  []string // results of the operations, which become the end of the reply
}

func (c *conformRun) keep(name string, value any) error {
	raw, err := json.Marshal(value)
	c.values = append(c.values, name+"="+string(raw))
	return err
}

func (c *conformRun) performAll(ctx context.Context, script []operation) error {
	for _, op := range script {
		if err := c.perform(ctx, op); err != nil {
			return err
		}
	}
	return nil
}

func (c *conformRun) perform(ctx context.Context, op operation) error {
	name := op.text(1)
	switch op.text(0) {
	case "write":
		times := 1
		op.read(2, &times)
		for range times {
			if err := c.s.Stream(ctx, name); err != nil {
				return err
			}
		}
		return nil
	case "part":
		return c.part(ctx, op)
	case "note":
		return c.note("note " + name)
	case "extend":
		var seconds int
		op.read(1, &seconds)
		return c.s.Append(ctx, mailroom.Step{Extend: time.Duration(seconds) * time.Second})
	case "waits-on":
		return c.s.Show(ctx, mailroom.Live{WaitsOn: name})
	case "hold":
		return c.hold(ctx, name)
	case "block": // as hold, but deaf: it does not notice that the attempt has to end
		return c.hold(context.WithoutCancel(ctx), name)
	case "crash":
		return c.crash(name)
	case "effect":
		return c.effect(ctx, op)
	case "step":
		return c.step(ctx, op)
	case "fail":
		return c.fail(op)
	case "state":
		return c.keep("state", c.s.State())
	case "saved":
		return c.keep("saved", c.s.Run().Checkpoint)
	case "steered", "transcript", "log":
		return c.look(ctx, op)
	case "send":
		return c.s.Append(ctx, mailroom.Step{Sends: []mailroom.Send{
			{Name: name, Agent: op.text(2), Parts: mailroom.Text(op.text(3))}}})
	}
	return c.wait(ctx, op)
}

// note appends a line to the notes with one write call.
func (c *conformRun) note(what string) error {
	f, err := os.OpenFile(filepath.Join(c.dir, "notes"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s %d %s\n", c.run, c.attempt, what)
	return errors.Join(err, f.Close())
}

// noted reports whether an attempt of the run has noted this.
func (c *conformRun) noted(what string) bool {
	text, _ := os.ReadFile(filepath.Join(c.dir, "notes")) // the file does not exist if nothing was noted
	for line := range strings.Lines(string(text)) {
		words := strings.SplitN(strings.TrimSpace(line), " ", 3)
		if words[0] == c.run && words[2] == what {
			return true
		}
	}
	return false
}

// hold waits until the gate is open.
func (c *conformRun) hold(ctx context.Context, gate string) error {
	for look := time.NewTicker(20 * time.Millisecond); ; {
		if _, err := os.Stat(filepath.Join(c.dir, "gate."+c.run+"."+gate)); err == nil {
			look.Stop()
			return nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			look.Stop()
			return context.Cause(ctx)
		}
	}
}

// crash kills the process, once for each name in a run.
func (c *conformRun) crash(name string) error {
	if name == "" || c.noted("crash "+name) {
		return nil
	}
	if err := c.note("crash " + name); err != nil {
		return err
	}
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		return err
	}
	select {}
}

// effectOptions are the options of an effect in a script.
type effectOptions struct {
	Idempotent, Reconcile bool
	Input                 json.RawMessage
	Hold                  string // a gate to wait for inside, before the effect happens
	Crash                 string // dies inside, after the effect has happened
	Unknown, Fails        bool   // the first call ends so
	valueOptions
}

func (c *conformRun) effect(ctx context.Context, op operation) error {
	name, o := op.text(1), effectOptions{}
	op.read(2, &o)
	e := mailroom.Effect{Name: name, Input: o.Input, Idempotent: o.Idempotent, Memo: op.text(0) == "memo"}
	if o.Reconcile {
		e.Reconcile = func(context.Context, string) (json.RawMessage, bool, error) {
			if !c.noted("effect " + name) {
				return nil, false, nil
			}
			value, err := json.Marshal("did " + name)
			return value, true, err
		}
	}
	value, err := c.s.Do(ctx, e, func(ctx context.Context, _ string) (json.RawMessage, error) {
		if err := c.happen(ctx, name, o); err != nil {
			return nil, err
		}
		value, err := json.Marshal("did " + name)
		return o.of(value), err
	})
	if err != nil {
		return err
	}
	return c.keep(name, value)
}

// happen is the function of an effect: what happens is a line in the notes.
func (c *conformRun) happen(ctx context.Context, name string, o effectOptions) error {
	if o.Hold != "" {
		if err := c.hold(ctx, o.Hold); err != nil {
			return err
		}
	}
	first := !c.noted("effect " + name)
	if err := c.note("effect " + name); err != nil {
		return err
	}
	if err := c.crash(o.Crash); err != nil {
		return err
	}
	switch {
	case first && o.Unknown:
		return mailroom.ErrUnknown
	case first && o.Fails:
		return errors.New("the effect has failed")
	}
	return nil
}

func (c *conformRun) step(ctx context.Context, op operation) error {
	var o struct {
		State, Checkpoint json.RawMessage
		Progress          float64
		Aside             bool
		Blobs             map[string]string
		valueOptions
	}
	op.read(2, &o)
	by, err := json.Marshal(map[string]any{"step": op.text(1), "attempt": c.attempt})
	if err != nil {
		return err
	}
	blobs := map[string][]byte{}
	for name, text := range o.Blobs {
		blobs[name] = []byte(text)
	}
	return c.s.Append(ctx, mailroom.Step{Name: op.text(1), State: o.State, Checkpoint: o.of(o.Checkpoint), Blobs: blobs,
		Progress: o.Progress, Internal: o.Aside, Entries: []mailroom.AgentEntry{{Kind: "x.by", Body: by}}})
}

// part performs operations and commits the number of the part, unless an earlier attempt has.
func (c *conformRun) part(ctx context.Context, op operation) error {
	var n, done int
	var script []operation
	op.read(1, &n)
	op.read(2, &script)
	if saved := c.s.Run().Checkpoint; saved != nil {
		if err := json.Unmarshal(saved, &done); err != nil {
			return err
		}
	}
	if done >= n {
		return nil
	}
	if err := c.performAll(ctx, script); err != nil {
		return err
	}
	return c.s.Append(ctx, mailroom.Step{Checkpoint: op[1]})
}

// fail ends the attempt with a failure of the class, the first so many times.
func (c *conformRun) fail(op operation) error {
	times := 1
	op.read(2, &times)
	for n := range times {
		if what := fmt.Sprintf("fail %d", n); !c.noted(what) {
			return errors.Join(c.note(what), &mailroom.Failure{Class: mailroom.Class(op.text(1)), Err: errors.New("it failed")})
		}
	}
	return nil
}

// look keeps what a read of the thread returns. steered waits until there is a message.
func (c *conformRun) look(ctx context.Context, op operation) error {
	texts := []string{}
	switch op.text(0) {
	case "steered":
		for look := time.NewTicker(20 * time.Millisecond); len(texts) == 0; {
			messages, err := c.s.Steered(ctx)
			if err != nil {
				return err
			}
			for _, m := range messages {
				texts = append(texts, m.Text)
			}
			select {
			case <-look.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	case "transcript":
		messages, err := c.s.Transcript(ctx, 10)
		if err != nil {
			return err
		}
		for _, m := range messages {
			texts = append(texts, m.Text)
		}
	case "log":
		var kinds []string
		op.read(1, &kinds)
		entries, err := c.s.Log(ctx, mailroom.LogQuery{Kinds: kinds})
		if err != nil {
			return err
		}
		for _, e := range entries {
			texts = append(texts, e.Kind)
		}
	}
	return c.keep(op.text(0), texts)
}

// wait performs what parks the run.
func (c *conformRun) wait(ctx context.Context, op operation) error {
	ask := mailroom.Ask{Name: op.text(1)}
	switch op.text(0) {
	case "memo":
		return c.effect(ctx, op)
	case "approval":
		ask.Kind, ask.Prompt, ask.Action = mailroom.TicketApproval, "May I "+ask.Name+"?", ask.Name
	case "ask":
		ask.Kind, ask.Prompt = mailroom.TicketInput, "What of "+ask.Name+"?"
	case "sleep":
		ms := 0
		op.read(2, &ms)
		ask.Kind, ask.After = mailroom.TicketTimer, time.Duration(ms)*time.Millisecond
	case "call":
		send := mailroom.Send{Name: ask.Name, Agent: op.text(2), Parts: mailroom.Text(op.text(3)),
			Answer: mailroom.AnswerWait}
		if err := c.s.Append(ctx, mailroom.Step{Sends: []mailroom.Send{send}}); err != nil {
			return err
		}
	default:
		return c.more(ctx, op)
	}
	tickets, err := c.s.Wait(ctx, false, ask)
	if err != nil {
		return err
	}
	t := tickets[0]
	switch op.text(0) {
	case "approval":
		return c.keep(ask.Name, t.Decision == mailroom.VerdictApprove)
	case "ask":
		return c.keep(ask.Name, t.Answer)
	case "call":
		var end struct{ Status, Reply string }
		if err := json.Unmarshal(t.Answer, &end); err != nil {
			return err
		}
		return c.keep(ask.Name, end.Status+": "+end.Reply)
	}
	return nil
}
