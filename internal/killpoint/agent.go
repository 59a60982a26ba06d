package killpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"mailroom"
)

// Script holds the options of a run: what the agent does in it.
type Script struct {
	// Scenes are the names of the scenes, in the order in which the agent plays them. say streams text. once, sure and
	// look perform an effect: by default, declared idempotent, and with a reconcile function. ask, question, timer and
	// child open a ticket and wait. note sends a message to another thread. fail fails the first attempt, never fails
	// for good. stubborn and deaf ignore that their context ends.
	Scenes []string `json:"scenes"`
	Words  int      `json:"words"`   // words in a say scene
	Pace   int      `json:"pace_ms"` // between two words, or two steps of a stubborn scene
	To     string   `json:"to"`      // target thread of a note scene
}

// Agent returns an agent that runs scenes, one durable step each. Its kill points are the
// places begin, token, text, effect, effected, result and step. Effects append a line to
// file, which only this agent writes.
func (d *KillPoint) Agent(file string) mailroom.Agent {
	return mailroom.AgentFunc(func(ctx context.Context, s mailroom.Session) error {
		p := &scriptRun{point: d, file: file, session: s, run: s.Run()}
		err := p.runAll(ctx)
		if err != nil && ctx.Err() != nil && !errors.Is(err, mailroom.ErrParked) {
			return context.Cause(ctx)
		}
		return err
	})
}

// scriptRun is one attempt of a run.
type scriptRun struct {
	point      *KillPoint
	file       string
	session    mailroom.Session
	run        mailroom.RunView
	script     Script
	checkpoint checkpoint
}

// checkpoint is what the agent stores with each step, so that the next attempt continues there.
type checkpoint struct {
	Next  int    `json:"next"`          // index of the next scene
	Child string `json:"kid,omitempty"` // name of the child that this scene waits for
}

func (p *scriptRun) runAll(ctx context.Context) error {
	p.point.reach("begin")
	p.script = Script{Scenes: []string{"say"}, Words: 5}
	if len(p.run.Options) > 0 {
		if err := json.Unmarshal(p.run.Options, &p.script); err != nil {
			return &mailroom.Failure{Class: mailroom.ClassPermanent, Err: fmt.Errorf("read the script: %w", err)}
		}
	}
	if p.run.Checkpoint != nil {
		if err := json.Unmarshal(p.run.Checkpoint, &p.checkpoint); err != nil {
			return fmt.Errorf("read the checkpoint: %w", err)
		}
	}
	for p.checkpoint.Next < len(p.script.Scenes) {
		if err := p.runScene(ctx, p.script.Scenes[p.checkpoint.Next]); err != nil {
			return err
		}
	}
	return nil
}

func (p *scriptRun) runScene(ctx context.Context, name string) error {
	switch name {
	case "say":
		return p.runSay(ctx)
	case "once", "sure", "look":
		return p.runEffect(ctx, name)
	case "ask":
		return p.runAsk(ctx, mailroom.Ask{Kind: mailroom.TicketApproval, Prompt: "May I?", Action: "go on"})
	case "question":
		return p.runAsk(ctx, mailroom.Ask{Kind: mailroom.TicketInput, Prompt: "What then?"})
	case "timer":
		return p.runAsk(ctx, mailroom.Ask{Kind: mailroom.TicketTimer, After: 150 * time.Millisecond})
	case "child":
		return p.runChild(ctx)
	case "note":
		note := mailroom.Send{Name: p.sceneName("note"), Thread: p.script.To,
			Parts: mailroom.Text(fmt.Sprintf("note %s %d", p.run.ID, p.checkpoint.Next))}
		return p.finishScene(ctx, mailroom.Step{Sends: []mailroom.Send{note}})
	case "fail":
		if p.run.Failures == 0 {
			return errors.New("the first attempt fails")
		}
		return p.finishScene(ctx, mailroom.Step{})
	case "never":
		return &mailroom.Failure{Class: mailroom.ClassPermanent, Err: errors.New("this is never done")}
	case "stubborn":
		return p.runStubborn(ctx)
	case "deaf":
		return p.runDeaf(ctx)
	}
	return &mailroom.Failure{Class: mailroom.ClassPermanent, Err: fmt.Errorf("unknown scene %q", name)}
}

// sceneName returns a name for a ticket or an effect of the current scene. It is the same in every attempt.
func (p *scriptRun) sceneName(what string) string {
	return fmt.Sprintf("%s-%d", what, p.checkpoint.Next)
}

// finishScene ends the scene by committing its step.
func (p *scriptRun) finishScene(ctx context.Context, step mailroom.Step) error {
	if err := p.echoSteered(ctx); err != nil {
		return err
	}
	after := checkpoint{Next: p.checkpoint.Next + 1}
	raw, err := json.Marshal(after)
	if err != nil {
		return err
	}
	by, err := json.Marshal(map[string]int{"attempt": p.run.Attempt})
	if err != nil {
		return err
	}
	step.Name, step.Checkpoint = p.sceneName(p.script.Scenes[p.checkpoint.Next]), raw
	// The entry names the attempt that wrote the step; the store records the attempt that it accepted. Torture
	// compares both.
	step.Entries = append(step.Entries, mailroom.AgentEntry{Kind: "x.by", Body: by})
	p.point.reach("step")
	if err := p.session.Append(ctx, step); err != nil {
		return err
	}
	p.checkpoint = after
	return nil
}

// echoSteered streams the steered messages back, so that the log shows that they were read.
func (p *scriptRun) echoSteered(ctx context.Context) error {
	messages, err := p.session.Steered(ctx)
	if err != nil {
		return err
	}
	for _, m := range messages {
		if err := p.session.Stream(ctx, "\nheard: "+m.Text); err != nil {
			return err
		}
	}
	return nil
}

// runSay streams its input and then more words.
func (p *scriptRun) runSay(ctx context.Context) error {
	input, err := p.session.Input(ctx)
	if err != nil {
		return err
	}
	texts := make([]string, len(input))
	for i, m := range input {
		texts[i] = m.Text
	}
	p.point.reach("token")
	if err := p.session.Stream(ctx, "read: "+strings.Join(texts, " | ")); err != nil {
		return err
	}
	for i := range p.script.Words {
		p.point.reach("text")
		if err := p.pause(ctx); err != nil {
			return err
		}
		if err := p.session.Stream(ctx, fmt.Sprintf(" wörd%d", i)); err != nil {
			return err
		}
	}
	return p.finishScene(ctx, mailroom.Step{})
}

func (p *scriptRun) pause(ctx context.Context) error {
	timer := time.NewTimer(time.Duration(p.script.Pace) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// runStubborn keeps writing after its context is cancelled, so that only the fence can stop it.
func (p *scriptRun) runStubborn(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	for i := range p.script.Words {
		if err := p.pause(ctx); err != nil {
			return err
		}
		if err := p.session.Append(ctx, mailroom.Step{Name: fmt.Sprintf("stubborn-%d", i)}); err != nil {
			return err
		}
	}
	return p.finishScene(ctx, mailroom.Step{})
}

// runDeaf ignores its context until it has lost its claim, then writes a step, or ends the run,
// as if nothing had happened.
func (p *scriptRun) runDeaf(ctx context.Context) error {
	if err := p.session.Stream(ctx, "deaf"); err != nil {
		return err
	}
	time.Sleep(1500 * time.Millisecond)
	if p.checkpoint.Next == len(p.script.Scenes)-1 {
		p.checkpoint.Next++
		return nil
	}
	return p.finishScene(context.WithoutCancel(ctx), mailroom.Step{})
}

// runAsk opens a ticket named after the scene and records the decision.
func (p *scriptRun) runAsk(ctx context.Context, a mailroom.Ask) error {
	a.Name = p.sceneName(string(a.Kind))
	tickets, err := p.session.Wait(ctx, false, a)
	if err != nil {
		return err
	}
	return p.recordTicket(ctx, tickets[0])
}

func (p *scriptRun) recordTicket(ctx context.Context, k mailroom.Ticket) error {
	body, err := json.Marshal(map[string]any{"ticket": k.ID, "state": k.State, "decision": k.Decision, "answer": k.Answer})
	if err != nil {
		return err
	}
	return p.finishScene(ctx, mailroom.Step{Entries: []mailroom.AgentEntry{{Kind: "x.told", Body: body}}})
}

// runChild starts a child run and waits for its end. A run that is retried after it was
// cancelled starts a new child under another name.
func (p *scriptRun) runChild(ctx context.Context) error {
	for {
		if p.checkpoint.Child == "" {
			if err := p.sendChild(ctx); err != nil {
				return err
			}
		}
		tickets, err := p.session.Wait(ctx, false, mailroom.Ask{Name: p.checkpoint.Child})
		if mailroom.CodeOf(err) == mailroom.CodeInvalid {
			p.checkpoint.Child = ""
			continue
		}
		if err != nil {
			return err
		}
		return p.recordTicket(ctx, tickets[0])
	}
}

func (p *scriptRun) sendChild(ctx context.Context) error {
	p.checkpoint.Child = fmt.Sprintf("%s-%d", p.sceneName("kid"), p.run.Attempt)
	raw, err := json.Marshal(p.checkpoint)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("kid %s %s", p.run.ID, p.checkpoint.Child)
	return p.session.Append(ctx, mailroom.Step{Name: "send-" + p.checkpoint.Child, Checkpoint: raw, Sends: []mailroom.Send{
		{Name: p.checkpoint.Child, Agent: p.run.Agent, Parts: mailroom.Text(text), Answer: mailroom.AnswerWait},
	}})
}
