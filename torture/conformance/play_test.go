package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/client"
)

// play is one performance of a scenario on a stage.
type play struct {
	*stage
	s       *scenario
	threads []string
	runs    []string // submitted with the script
}

// action is something that happens around the runs.
type action func(p *play, op operation) error

// actions returns what a play may contain.
func actions() map[string]action {
	return map[string]action{
		"submit": (*play).submit,
		// run SCRIPT: another run in the thread, before the others, whose end is awaited.
		"run": func(p *play, op operation) error {
			var script []operation
			if err := json.Unmarshal(op[1], &script); err != nil {
				return err
			}
			run, err := p.send(p.thread(0), scriptText(script), 0)
			if err != nil {
				return err
			}
			return p.settled(run)
		},
		// await WHAT N: until each run has noted this text, or with N until so many lines have it, whether the run goes on
		// or not.
		"await": (*play).await,
		// await-status STATUS, await-attempt N: until each run has it.
		"await-status": func(p *play, op operation) error {
			return p.reach(op.text(1), func(r api.Run) bool { return string(r.Status) == op.text(1) })
		},
		"await-attempt": func(p *play, op operation) error {
			return p.reach("attempt "+op.text(1), func(r api.Run) bool { return r.Attempt >= op.number(1) })
		},
		// await-fault: until all faults of the scenario have happened.
		"await-fault": func(p *play, _ operation) error {
			return p.until("the faults have happened", func() (bool, error) {
				_, fired := p.proxy.history()
				return len(fired) >= len(p.s.Faults), nil
			})
		},
		"await-waits-on": (*play).awaitWaitsOn,
		"outlive":        (*play).outlive,
		"open":           (*play).openAll,
		"faults":         (*play).armAll,
		"calm":           func(p *play, _ operation) error { p.proxy.reset(); return nil },
		"start":          func(p *play, _ operation) error { return p.startWorker() },
		"kill":           func(p *play, _ operation) error { p.kill(); return nil },
		"freeze":         func(p *play, _ operation) error { return p.worker().signal(syscall.SIGSTOP) },
		// thaw: the first worker goes on.
		"thaw": func(p *play, _ operation) error { return p.workers[0].signal(syscall.SIGCONT) },
		"term": func(p *play, _ operation) error { return p.worker().signal(syscall.SIGTERM) },
		// exited: until the worker has ended, with exit code 0.
		"exited":  (*play).exited,
		"crashed": (*play).crashed,
		// refused SCOPE: a worker with a token of this scope only ends, and says in one line what it needs.
		"refused": (*play).refused,
		// declined TEXT: a worker ends by itself, and says this.
		"declined": func(p *play, op operation) error { return p.turnsAway(p.server.token, op.text(1)) },
		// then SCRIPT REPLY: another run in the thread of each run, behind it, has this reply. ATTEMPT in the script stands
		// for the number of the last attempt of the run before.
		"then":       (*play).then,
		"registered": (*play).awaitWorkers,
		"kill-server": func(p *play, _ operation) error {
			p.server.process.kill()
			return nil
		},
		"start-server": func(p *play, _ operation) error {
			err := p.server.start()
			if p.proxy != nil {
				p.proxy.mu.Lock()
				p.proxy.upstream = p.server.url
				p.proxy.mu.Unlock()
			}
			return err
		},
		"cancel": (*play).cancel,
		"steer": func(p *play, op operation) error {
			_, err := p.server.client().Submit(p.t.Context(), api.Submit{Thread: p.threads[0], Text: op.text(1),
				Mode: mailroom.ModeSteer, Agent: p.agent})
			return err
		},
		"attend": (*play).attend,
		"pause":  func(p *play, _ operation) error { return p.pause(true) },
		"resume": func(p *play, _ operation) error { return p.pause(false) },
		// decide NAME VERDICT ANSWER: the ticket, once it is open.
		"decide": (*play).decide,
	}
}

// perform plays the scenario, and judges it.
func (p *play) perform() error {
	moves := p.s.Play
	if !slices.ContainsFunc(moves, func(op operation) bool { return op.verb() == "submit" }) {
		moves = append([]operation{{json.RawMessage(`"submit"`)}}, moves...)
	}
	for _, op := range moves {
		do := actions()[op.verb()]
		if do == nil {
			return fmt.Errorf("unknown action %s", op)
		}
		if err := do(p, op); err != nil {
			return fmt.Errorf("%s: %w", op, err)
		}
	}
	for i, run := range p.runs {
		if err := p.settled(run); err != nil {
			return err
		}
		if err := p.judge(p.threads[i], run); err != nil {
			return fmt.Errorf("run %s: %w", run, err)
		}
	}
	return nil
}

// thread returns the name of the n-th thread of this performance.
func (p *play) thread(n int) string {
	for len(p.threads) <= n {
		p.threads = append(p.threads, fmt.Sprintf("%s-%s-%d-%d", p.s.Name, p.agent, time.Now().UnixNano(), len(p.threads)))
	}
	return p.threads[n]
}

func (p *play) submit(_ operation) error {
	for n := range max(p.s.Copies, 1) {
		run, err := p.send(p.thread(n), p.s.script(), p.s.Pad)
		if err != nil {
			return err
		}
		p.runs = append(p.runs, run)
	}
	return nil
}

// maxMessage is the length of the messages of further input: one has 1 MiB at most.
const maxMessage = 1 << 20

// send submits a script, and further messages with pad bytes.
func (p *play) send(thread, script string, pad int) (run string, err error) {
	in := api.Submit{Thread: thread, Agent: p.agent, Messages: []api.NewMessage{{Text: script}},
		Key: fmt.Sprint(thread, " ", len(script))}
	for size := pad; size > 0; size -= maxMessage {
		in.Messages = append(in.Messages, api.NewMessage{Text: strings.Repeat("x", min(size, maxMessage))})
	}
	out, err := p.submitOnce(in)
	return out.Run, err
}

// submitOnce repeats a submit that the server did not answer. The server inside which the agent runs may have died of
// it.
func (p *play) submitOnce(in api.Submit) (out api.Submitted, err error) {
	err = p.until("a submit is answered", func() (bool, error) {
		out, err = p.server.client().Submit(p.t.Context(), in)
		if mailroom.CodeOf(err) != mailroom.CodeUnavailable {
			return err == nil, err
		}
		if p.column.name == inside && p.worker().hasExited() {
			return false, p.startWorker()
		}
		return false, nil
	})
	return out, err
}

// settled waits for the end of a run. A server that is starting does not answer.
func (p *play) settled(run string) error {
	return p.until("run "+run+" has ended", func() (bool, error) {
		r, err := p.server.client().WaitRun(p.t.Context(), run, 5*time.Second)
		if mailroom.CodeOf(err) == mailroom.CodeUnavailable {
			return false, nil
		}
		return r.Status.Finished(), err
	})
}

// awaitWaitsOn waits until readers of each run see that it waits for a text.
func (p *play) awaitWaitsOn(op operation) error {
	return p.reach("it waits for "+op.text(1), func(r api.Run) bool { return r.WaitsOn != nil && r.WaitsOn.Text == op.text(1) })
}

// outlive waits for twice the deadline of an attempt, and fails if the current attempt of a run ends in this time.
func (p *play) outlive(_ operation) error {
	length, err := time.ParseDuration(p.s.Deadline)
	if err != nil {
		return err
	}
	begin, attempt := time.Now(), 0
	for _, run := range p.runs {
		err = errors.Join(err, p.until("the first deadline has passed", func() (bool, error) {
			r, err := p.server.client().Run(p.t.Context(), run)
			if attempt = max(attempt, r.Attempt); err == nil && (r.Attempt != attempt || r.Status != mailroom.StatusRunning) {
				err = fmt.Errorf("the run is %s in attempt %d (error %+v)", r.Status, r.Attempt, r.LastError)
			}
			return time.Since(begin) > 2*length, err
		}))
	}
	return err
}

func (p *play) openAll(op operation) (err error) {
	for _, run := range p.runs {
		err = errors.Join(err, p.open(run, op.text(1)))
	}
	return err
}

// armAll adds faults from now on.
func (p *play) armAll(op operation) error {
	var f []fault
	if err := json.Unmarshal(op[1], &f); err != nil {
		return err
	}
	p.proxy.arm(f...)
	return nil
}

func (p *play) await(op operation) error {
	for _, run := range p.runs {
		err := p.until(op.text(1)+" is noted", func() (bool, error) {
			ended := p.stillOpen(run) // before the notes are read, which an attempt may write at its end
			lines, err := p.notes(run)
			lines = slices.DeleteFunc(lines, func(line string) bool { return line != op.text(1) })
			if err != nil || len(lines) >= max(op.number(2), 1) {
				return err == nil, err
			}
			if op.number(2) > 0 {
				return false, nil
			}
			return false, ended
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// reach waits until each run is as wanted.
func (p *play) reach(what string, is func(api.Run) bool) error {
	for _, run := range p.runs {
		err := p.until(what, func() (bool, error) {
			r, err := p.server.client().Run(p.t.Context(), run)
			if mailroom.CodeOf(err) == mailroom.CodeUnavailable {
				return false, nil // a server that is starting
			}
			if err == nil && r.Status.Finished() && !is(r) {
				err = fmt.Errorf("the run is %s (error %+v)", r.Status, r.Error)
			}
			return err == nil && is(r), err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// stillOpen returns an error if a run has ended: what it had to reach does not come any more.
func (p *play) stillOpen(run string) error {
	r, err := p.server.client().Run(p.t.Context(), run)
	if err == nil && r.Status.Finished() {
		return fmt.Errorf("the run is %s already (error %+v)", r.Status, r.Error)
	}
	return nil // a server that is starting does not answer
}

func (p *play) exited(_ operation) error {
	late, cancel := context.WithTimeout(p.t.Context(), *patience)
	defer cancel()
	w := p.worker()
	select {
	case <-w.exited:
	case <-late.Done():
		return fmt.Errorf("the worker has not ended after %s", *patience)
	}
	if code := w.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("the worker ended with %d: %s", code, w.output())
	}
	return nil
}

// crashed waits until the worker has ended, however.
func (p *play) crashed(_ operation) error {
	late, cancel := context.WithTimeout(p.t.Context(), *patience)
	defer cancel()
	select {
	case <-p.worker().exited:
		return nil
	case <-late.Done():
		return fmt.Errorf("the worker has not ended after %s", *patience)
	}
}

// refused starts a worker with a token that may not work, and waits for its end.
func (p *play) refused(op operation) error {
	token, err := p.server.client().Accounts().CreateToken(p.t.Context(), api.NewToken{Name: p.thread(0),
		Scopes: []auth.Permission{auth.Permission(op.text(1))}})
	if err != nil {
		return err
	}
	return p.turnsAway(token.Secret, "scope work")
}

// turnsAway starts a worker with a token, and waits for its end. The worker must say a text.
func (p *play) turnsAway(token, text string) error {
	w, err := p.launch(token)
	if err != nil {
		return err
	}
	if err := p.crashed(nil); err != nil {
		return err
	}
	p.workers = p.workers[:len(p.workers)-1]
	if w.cmd.ProcessState.ExitCode() < 1 || !strings.Contains(w.output(), text) {
		return fmt.Errorf("the worker ended with %s and says %q", w.cmd.ProcessState, w.output())
	}
	return nil
}

func (p *play) cancel(_ operation) (err error) {
	for _, run := range p.runs {
		_, one := p.server.client().CancelRun(p.t.Context(), run)
		err = errors.Join(err, one)
	}
	return err
}

func (p *play) then(op operation) error {
	for i, run := range p.runs {
		before, err := p.server.client().Run(p.t.Context(), run)
		if err != nil {
			return err
		}
		next, err := p.send(p.threads[i], strings.ReplaceAll(string(op[1]), "ATTEMPT", fmt.Sprint(before.Attempt)), 0)
		if err != nil {
			return err
		}
		if err := p.settled(next); err != nil {
			return err
		}
		r, err := p.server.client().Run(p.t.Context(), next)
		if err != nil || r.Reply == nil || *r.Reply != op.text(2) {
			return errors.Join(err, fmt.Errorf("the next run is %s (error %+v) with the reply %v", r.Status, r.Error, r.Reply))
		}
	}
	return nil
}

// pause keeps runs of the agent in the queue, where further messages join them, or ends that.
func (p *play) pause(begin bool) error {
	if !begin {
		return p.server.client().ResumeAgent(p.t.Context(), p.agent)
	}
	_, err := p.server.client().PauseAgent(p.t.Context(), p.agent, "more input comes")
	return err
}

// awaitWorkers waits until so many workers serve the agent.
func (p *play) awaitWorkers(op operation) error {
	return p.until(op.text(1)+" workers are registered", func() (bool, error) {
		ids, err := p.registered()
		return len(ids) >= op.number(1), err
	})
}

// attend starts a worker where one has died, and decides tickets as a person would who knows what happened, until the
// runs have ended.
func (p *play) attend(_ operation) error {
	return p.until("the runs have ended", func() (bool, error) {
		if p.worker().hasExited() {
			if err := p.startWorker(); err != nil {
				return false, err
			}
		}
		ended := 0
		for _, run := range p.runs {
			r, err := p.server.client().Run(p.t.Context(), run)
			if mailroom.CodeOf(err) == mailroom.CodeUnavailable {
				return false, nil
			}
			if err != nil {
				return false, err
			}
			if r.Status.Finished() {
				ended++
			} else if err := p.decideOpen(run); err != nil && mailroom.CodeOf(err) != mailroom.CodeUnavailable {
				return false, err
			}
		}
		return ended == len(p.runs), nil
	})
}

// decideOpen approves what a run asks. What became of an effect is in the notes: the effect is not called again if it
// happened.
func (p *play) decideOpen(run string) error {
	page, err := p.server.client().Tickets(p.t.Context(), client.ListQuery{Q: "state:open run:" + run})
	if err != nil {
		return err
	}
	lines, err := p.notes(run)
	for _, k := range page.Items {
		if k.Kind != mailroom.TicketApproval {
			continue // a child ends by itself, and so does a timer
		}
		in := api.Decision{Decision: mailroom.VerdictApprove, Digest: k.Digest}
		effect, _, _ := strings.Cut(strings.TrimPrefix(k.Name, "effect:"), "#")
		if effect != k.Name && slices.Contains(lines, "effect "+effect) {
			in.Decision, in.Answer = mailroom.VerdictAnswer, json.RawMessage(fmt.Sprintf("%q", "did "+effect))
		}
		_, one := p.server.client().Decide(p.t.Context(), k.ID, in)
		err = errors.Join(err, one)
	}
	return err
}

func (p *play) decide(op operation) error {
	for _, run := range p.runs {
		if err := p.decideOne(run, op); err != nil {
			return err
		}
	}
	return nil
}

func (p *play) decideOne(run string, op operation) error {
	var open api.Ticket
	err := p.until("ticket "+op.text(1)+" is open", func() (bool, error) {
		page, err := p.server.client().Tickets(p.t.Context(), client.ListQuery{Q: "state:open run:" + run})
		for _, k := range page.Items {
			if strings.HasPrefix(k.Name, op.text(1)) {
				open = k
			}
		}
		return open.ID != "", err
	})
	if err != nil {
		return err
	}
	in := api.Decision{Decision: mailroom.Verdict(op.text(2)), Digest: open.Digest}
	if len(op) > 3 {
		in.Answer = op[3]
	}
	_, err = p.server.client().Decide(p.t.Context(), open.ID, in)
	return err
}
