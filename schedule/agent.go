// Package schedule has the agent of schedules. Each schedule is a thread. All that it
// does follows from the rows: the state of the thread, the runs that it sent, and the token whose rights it uses. So a
// kill between two commits changes nothing.
package schedule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	KindPaused  = "x.schedule.paused"  // plan.Pause
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
	admits   func(ctx context.Context, user string) (bool, error) // see Admit
}

// New returns the agent. operator is the operator's present token; see [auth.NewOperator].
func New(l viewer, operator *auth.Token) *Agent { return &Agent{ledger: l, operator: operator} }

// Admit sets how the agent finds out whether the user of a chat who made a schedule still has access. Without it such
// schedules are paused.
func (a *Agent) Admit(f func(ctx context.Context, user string) (bool, error)) *Agent {
	a.admits = f
	return a
}

// Run implements [mailroom.Agent]. A run is a command, the end of a run that the schedule sent, or a message of the
// schedule to itself. With each, the schedule accounts for all occurrences up to now and for all ends, so it does not
// matter which comes first, or how late.
func (a *Agent) Run(ctx context.Context, s mailroom.Session) error {
	if reserved.IsBook(s.Run().Thread) {
		return a.runBook(ctx, s)
	}
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
	orphan  bool                     // the thread that it belongs to was deleted
	runs    map[string]*mailroom.Run // the open runs that exist, by id
	moves   plan.Moves               // to commit
	entries []mailroom.AgentEntry
}

// move changes the state. reply says, for people, why a command was not carried out.
func (t *turn) move(ctx context.Context) (reply string, err error) {
	origin := t.session.Run().Origin
	fromServer := origin.Via == reserved.ViaSchedule
	byAgent := origin.Via == "run" && origin.Sender == reserved.Scheduler // a book, or the schedule itself
	input, err := t.session.Input(ctx)
	if err != nil {
		return "", err
	}
	command, err := plan.ReadCommand(input)
	switch {
	case fromServer && err != nil:
		return "", permanent(err)
	case !fromServer && (!byAgent || err != nil):
		t.account()
		if origin.Via != "run" && origin.Via != "wake" {
			reply = "This thread belongs to a schedule. It is changed by the schedule's own commands and requests."
		}
		if t.state != nil {
			t.moves.Add(t.state.Advance(t.now))
		}
		return reply, nil
	}
	// With set, resume and configure the schedule gets the rights of who asks. The last two also end the pause that
	// follows from the end of its rights, so it is not paused for a moment.
	if command.Op == plan.OpResume || command.Op == plan.OpConfigure && command.Spec != nil {
		t.gone = ""
	}
	t.account()
	switch {
	case command.Op == plan.OpSet:
		t.gone = ""
	case command.Op == plan.OpTrigger && t.gone != "":
		return t.gone, nil
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
	barred, err := t.agent.bars(ctx, t.state.Own)
	if err != nil {
		return err
	}
	return t.agent.ledger.View(ctx, func(r store.Reader) (err error) {
		if t.gone, err = t.agent.rightsEnded(r, t.state, t.now); err != nil {
			return err
		}
		if barred {
			t.gone = "the user who made it may not use the chat any more"
		}
		if t.orphan, err = threadEnded(r, t.state.Own); err == nil {
			t.runs, err = runsByID(r, t.state.OpenRuns())
		}
		return err
	})
}

// account records the ends of the runs that the schedule has sent, and pauses it if its rights have ended.
func (t *turn) account() {
	if t.state == nil {
		return
	}
	if t.orphan && !t.state.Ended {
		t.moves.Add(t.state.Close(t.now))
	}
	if t.gone != "" && t.state.Paused == nil && !t.state.Ended {
		t.state.EndRights(t.gone, t.now)
		t.add(KindPaused, t.state.Paused)
	}
	if p := t.state.Account(t.runs, t.now); p != nil {
		t.moves.Paused = p
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

// commit commits the moves, and the state with what is due. The first fire is in the same commit, because most turns
// have one. If the ledger refuses that, the moves come first, and each fire gets a commit of its own: one that is
// refused must not keep the others back.
func (t *turn) commit(ctx context.Context) error {
	sends := make([]mailroom.Send, 0, 2)
	if !t.moves.Tick.IsZero() {
		first := 0 // before what else the thread has to do
		sends = append(sends, mailroom.Send{
			Name: "tick", Thread: t.state.ID, Agent: reserved.Scheduler, Parts: mailroom.Text("tick"),
			NotBefore: t.moves.Tick, Priority: &first,
		})
	}
	if t.logMoves(); len(t.state.Due) > 0 && t.mayFire() {
		undo, err := t.save()
		if err != nil {
			return err
		}
		fire := t.fire()
		if err := t.append(ctx, "plan", append(sends, fire)); err == nil || !refuses(err) {
			return err
		}
		if err := undo(); err != nil {
			return err
		}
	}
	err := t.append(ctx, "plan", sends)
	if err != nil && len(sends) > 0 && refuses(err) { // a quota, for example: the schedule must not end by it
		return &mailroom.Failure{Class: mailroom.ClassUnavailable, RetryAfter: refusedLater, Err: err}
	}
	return err
}

// save returns a function that takes back what was done to the state and the entries since.
func (t *turn) save() (undo func() error, err error) {
	before, err := json.Marshal(t.state)
	if err != nil {
		return nil, permanent(err)
	}
	entries := slices.Clone(t.entries)
	return func() (err error) {
		t.entries = entries
		if t.state, err = plan.Decode(before); err != nil {
			return permanent(err)
		}
		return nil
	}, nil
}

// append commits the state with the skips and entries since the last commit, and sends.
func (t *turn) append(ctx context.Context, name string, sends []mailroom.Send) error {
	t.logMoves()
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
		t.entries = nil
	}
	return err
}

// logMoves makes entries of the moves, before the entries of what follows.
func (t *turn) logMoves() {
	for _, k := range t.moves.Skips {
		t.add(kindSkipped, k)
	}
	if t.moves.Paused != nil {
		t.add(KindPaused, t.moves.Paused)
	}
	t.moves = plan.Moves{}
}

// mayFire reports whether the first fire may be sent: a paused schedule, and one without rights, send nothing, except
// that a person may trigger a paused one.
func (t *turn) mayFire() bool {
	return !t.orphan && t.gone == "" && (t.state.Paused == nil || t.state.Due[0].Manual)
}

// sendDue sends what is due, each in a commit of its own.
func (t *turn) sendDue(ctx context.Context) error {
	for t.state != nil && len(t.state.Due) > 0 {
		if !t.mayFire() {
			reason := plan.SkipPaused
			if t.orphan {
				reason = plan.SkipCancelled
			}
			t.moves.Add(t.state.Refuse(reason, t.gone, t.now))
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
	undo, err := t.save()
	if err != nil {
		return err
	}
	refusal := t.append(ctx, "send", []mailroom.Send{t.fire()})
	if refusal == nil || !refuses(refusal) {
		return refusal
	}
	if err := undo(); err != nil {
		return err
	}
	reason := plan.SkipRefused
	if mailroom.CodeOf(refusal) == mailroom.CodeBusy {
		reason = plan.SkipBusy
	}
	t.moves.Add(t.state.Refuse(reason, said(refusal), t.now))
	return t.append(ctx, "skip", nil)
}

// fire takes the first fire out of what is due, and returns its message.
func (t *turn) fire() mailroom.Send {
	send, run := t.message(t.state.Due[0]), ""
	if send.Mode != mailroom.ModeSteer { // what joins another run has no end of its own
		_, run, _ = thread.SendIDs(send, t.session.Run().ID)
	}
	t.add(kindSent, t.state.Accept(run))
	return send
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
	in := spec.Submit(name, f.Nominal)
	send := mailroom.Send{
		Name: "fire " + f.Nominal.UTC().Format(time.RFC3339Nano), Thread: in.Thread, Agent: in.Agent,
		Parts: in.Messages[0].Parts, Priority: in.Priority, Timeout: in.Timeout, Options: in.Options,
		Metadata: in.Metadata,
	}
	if spec.Overlap == plan.OverlapOne { // only then a fire waits for the end; see State.Account for the others
		send.Answer = mailroom.AnswerWake
	}
	if spec.SilentWord != "" {
		send.Metadata[reserved.SilentWord] = spec.SilentWord
	}
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
