// Package schedule has the agent of schedules. Each schedule is a thread. All that it
// does follows from the rows: the state of the thread, the runs that it sent, and the token whose rights it uses. So a
// kill between two commits changes nothing.
package schedule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/internal/reserved"
	"mailroom/schedule/plan"
	"mailroom/store"
	"mailroom/thread"
)

// Kinds of the entries in the log of a schedule.
const (
	kindSent    = "x.schedule.sent"    // plan.Fire
	kindSkipped = "x.schedule.skipped" // plan.Skip
	kindPaused  = "x.schedule.paused"  // plan.Pause
	kindChanged = "x.schedule.changed" // plan.Command
)

// refusedLater is when a step is tried again that the ledger refuses for a while, such as over a quota.
const refusedLater = time.Minute

// viewer reads snapshots of the store.
type viewer interface {
	View(ctx context.Context, f func(store.Reader) error) error
}

// Agent is the agent of all schedules.
type Agent struct {
	ledger   viewer
	operator *auth.Token
}

// New returns the agent. operator is the operator's present token; see [auth.NewOperator].
func New(l viewer, operator *auth.Token) *Agent { return &Agent{l, operator} }

// Run implements [mailroom.Agent]. A run is a command, the end of a run that the schedule sent, or a message of the
// schedule to itself. After each, the schedule accounts for all occurrences up to now, so it does not matter which
// comes first, or how late.
func (a *Agent) Run(ctx context.Context, s mailroom.Session) error {
	t := &turn{agent: a, session: s, now: s.Run().NotBefore}
	if now := time.Now().UTC(); now.After(t.now) {
		t.now = now // else the clock of the server that made the run due is ahead
	}
	var err error
	if t.state, err = plan.Decode(s.State()); err != nil {
		return permanent(err)
	}
	if err := t.look(ctx); err != nil {
		return err
	}
	if s.Run().Checkpoint == nil { // else an earlier attempt has committed the moves
		reply, err := t.move(ctx)
		if err != nil {
			return err
		}
		if err := s.Stream(ctx, reply); err != nil || t.state == nil {
			return err
		}
		if err := t.commit(ctx); err != nil {
			return err
		}
	}
	return t.sendDue(ctx)
}

// turn is an attempt.
type turn struct {
	agent   *Agent
	session mailroom.Session
	now     time.Time
	state   *plan.State              // nil: there is no schedule yet
	gone    string                   // why the rights of the schedule have ended; "": they have not
	runs    map[string]*mailroom.Run // the open runs that exist, by id
	moves   plan.Moves               // to commit
	entries []mailroom.AgentEntry
}

// move changes the state. reply says, for people, why a command was not carried out.
func (t *turn) move(ctx context.Context) (reply string, err error) {
	t.account()
	if run := t.session.Run(); run.Origin.Via != reserved.ViaSchedule {
		if run.Origin.Via != "run" && run.Origin.Via != "wake" {
			reply = "This thread belongs to a schedule. It is changed by the schedule's own commands and requests."
		}
		if t.state != nil {
			t.moves.Add(t.state.Advance(t.now))
		}
		return reply, nil
	}
	input, err := t.session.Input(ctx)
	if err != nil {
		return "", err
	}
	command, err := plan.ReadCommand(input)
	if err != nil {
		return "", permanent(err)
	}
	switch command.Op {
	case plan.OpSet, plan.OpResume:
		t.gone = "" // the schedule gets the rights of who asks
	case plan.OpTrigger:
		if t.gone != "" {
			return t.gone, nil
		}
	}
	state, moves, why := plan.Do(t.state, t.session.Run().Thread, command, t.session.Run().CreatedAt, t.now)
	t.state = state
	t.moves.Add(moves)
	if why == "" {
		t.add(kindChanged, command)
	}
	return why, nil
}

// look reads the rights of the schedule and the runs that it has sent. Each attempt does: between two the rights may
// end, and the second still sends what the first has found due.
func (t *turn) look(ctx context.Context) error {
	if t.state == nil {
		return nil
	}
	ids := t.state.OpenRuns()
	t.runs = map[string]*mailroom.Run{}
	return t.agent.ledger.View(ctx, func(r store.Reader) (err error) {
		if t.gone, err = t.agent.rightsEnded(r, t.state, t.now); err != nil || len(ids) == 0 {
			return err
		}
		found, err := r.Runs(store.RunQuery{IDs: ids})
		for _, run := range found {
			t.runs[run.ID] = run
		}
		return err
	})
}

// account records the ends of the runs that the schedule has sent, and pauses it if its rights have ended. A run that
// does not exist any more counts as cancelled, so that it does not hold up the next one for ever.
func (t *turn) account() {
	if t.state == nil {
		return
	}
	if t.gone != "" && t.state.Paused == nil {
		t.state.Pause(plan.Server, t.gone, t.now)
		t.add(kindPaused, t.state.Paused)
	}
	for _, id := range t.state.OpenRuns() {
		switch run := t.runs[id]; {
		case run == nil:
			t.moves.Add(t.state.End(id, mailroom.StatusCancelled, "the run was deleted", t.now))
		case run.Status.Finished():
			why := ""
			if run.Error != nil {
				why = run.Error.Message
			}
			t.moves.Add(t.state.End(id, run.Status, why, t.now))
		}
	}
}

// rightsEnded returns why the rights of a schedule have ended, "" if they have not. It has the rights of the
// token that made it: a later token of the same name has others.
func (a *Agent) rightsEnded(r store.Reader, s *plan.State, now time.Time) (why string, err error) {
	owner, _ := reserved.SchedulePlace(s.ID)
	if owner == auth.Operator {
		if s.Source != a.operator.ID() && !a.operator.IsOperator(s.Source) {
			why = "the token of the operator was replaced: resume the schedule if it is yours"
		}
		return why, nil
	}
	rows, err := r.Tokens(owner)
	if err != nil {
		return "", err
	}
	for _, row := range rows {
		if row.ID() == s.Source && row.RevokedAt.IsZero() && !row.Expired(now) {
			return "", nil
		}
	}
	return fmt.Sprintf("token %s, which made it, was revoked or replaced, or has expired", owner), nil
}

// commit commits the moves, and the state with what is due.
func (t *turn) commit(ctx context.Context) error {
	var sends []mailroom.Send
	if !t.moves.Tick.IsZero() {
		first := 0 // before what else the thread has to do
		sends = append(sends, mailroom.Send{
			Name: "tick", Thread: t.state.ID, Agent: reserved.Scheduler, Parts: mailroom.Text("tick"),
			NotBefore: t.moves.Tick, Priority: &first,
		})
	}
	return t.append(ctx, "plan", sends)
}

// append commits the state with the skips and entries since the last commit, and sends.
func (t *turn) append(ctx context.Context, name string, sends []mailroom.Send) error {
	for _, k := range t.moves.Skips {
		t.add(kindSkipped, k)
	}
	if t.moves.Paused != nil {
		t.add(kindPaused, t.moves.Paused)
	}
	state, err := json.Marshal(t.state)
	if err != nil {
		return permanent(err)
	}
	for len(state) > mailroom.MaxState && len(t.state.Results) > 0 { // errors with characters that are long in JSON
		t.state.Results = t.state.Results[1:]
		if state, err = json.Marshal(t.state); err != nil {
			return permanent(err)
		}
	}
	err = t.session.Append(ctx, mailroom.Step{
		Name: name, State: state, Sends: sends, Entries: t.entries, Checkpoint: json.RawMessage(`{"planned":true}`),
	})
	if err == nil {
		t.entries, t.moves = nil, plan.Moves{}
		return nil
	}
	if len(sends) > 0 && sends[0].Name == "tick" && refuses(err) { // a quota, for example: the schedule must not end by it
		return &mailroom.Failure{Class: mailroom.ClassUnavailable, RetryAfter: refusedLater, Err: err}
	}
	return err
}

// sendDue sends what is due, each in a commit of its own, because one that is refused must not keep the others back.
func (t *turn) sendDue(ctx context.Context) error {
	for t.state != nil && len(t.state.Due) > 0 {
		if fire := t.state.Due[0]; t.gone != "" || t.state.Paused != nil && !fire.Manual {
			t.moves.Add(t.state.Refuse(plan.SkipPaused, t.gone, t.now))
			if err := t.append(ctx, "skip", nil); err != nil {
				return err
			}
			continue
		}
		if err := t.send(ctx); err != nil {
			return err
		}
	}
	return nil
}

// send sends the first fire, or skips it if its message is refused.
func (t *turn) send(ctx context.Context) error {
	before, err := json.Marshal(t.state)
	if err != nil {
		return permanent(err)
	}
	send, run := t.message(t.state.Due[0]), ""
	if send.Answer != mailroom.AnswerNone {
		_, run, _ = thread.SendIDs(send, t.session.Run().ID)
	}
	t.add(kindSent, t.state.Accept(run))
	refusal := t.append(ctx, "send", []mailroom.Send{send})
	if refusal == nil || !refuses(refusal) {
		return refusal
	}
	if t.state, err = plan.Decode(before); err != nil {
		return permanent(err)
	}
	t.entries = nil
	reason := plan.SkipRefused
	if mailroom.CodeOf(refusal) == mailroom.CodeBusy {
		reason = plan.SkipBusy
	}
	t.moves.Add(t.state.Refuse(reason, said(refusal), t.now))
	return t.append(ctx, "skip", nil)
}

// said returns what a refusal says to its caller.
func said(err error) string {
	if e, ok := errors.AsType[*mailroom.Error](err); ok {
		return e.Message
	}
	return err.Error()
}

// message returns the send of a fire.
func (t *turn) message(f plan.Fire) mailroom.Send {
	spec := &t.state.Spec
	_, name := reserved.SchedulePlace(t.state.ID)
	send := mailroom.Send{
		Name: "fire " + f.Nominal.UTC().Format(time.RFC3339Nano), Thread: spec.Thread, Agent: spec.Agent,
		Parts: mailroom.Text(spec.Text), Answer: mailroom.AnswerWake, Priority: spec.Priority, Timeout: spec.Timeout,
		Options: spec.Options, Metadata: map[string]string{},
	}
	maps.Copy(send.Metadata, spec.Metadata)
	send.Metadata["schedule"], send.Metadata["nominal"] = name, f.Nominal.UTC().Format(time.RFC3339)
	switch spec.Busy {
	case plan.BusySteer:
		send.Mode, send.Answer = mailroom.ModeSteer, mailroom.AnswerNone // what joins another run has no end of its own
	case plan.BusySkip:
		send.Mode = mailroom.ModeReject
	}
	return send
}

func (t *turn) add(kind string, body any) {
	raw, err := json.Marshal(body)
	if err != nil {
		panic(err) // the types of package schedule always encode
	}
	t.entries = append(t.entries, mailroom.AgentEntry{Kind: kind, Body: raw})
}

// refuses reports whether an error of an Append is about what it asks, and not about the store or the claim.
func refuses(err error) bool {
	return slices.Contains([]mailroom.Code{
		mailroom.CodeInvalid, mailroom.CodeTooLarge, mailroom.CodeNotFound, mailroom.CodeForbidden, mailroom.CodeConflict,
		mailroom.CodeBusy, mailroom.CodeRateLimited, mailroom.CodeQuotaExceeded,
	}, mailroom.CodeOf(err))
}

func permanent(err error) error {
	return &mailroom.Failure{Class: mailroom.ClassPermanent, Err: err}
}
