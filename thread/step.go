package thread

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/entry"
	"mailroom/internal/check"
	"mailroom/internal/digest"
	"mailroom/internal/display"
	"mailroom/internal/reserved"
	"mailroom/store"
)

// StepCommit is one durable step of a run, under a claim.
type StepCommit struct {
	mailroom.Claim
	Number  int // the run's Step + 1
	Step    mailroom.Step
	Message *PartialText          // the message being written, complete
	Covers  int64                 // seq of the last steered message that the agent had read
	Effects []mailroom.AgentEntry // entries of kind effect.*; only a Session writes them
	Blobs   []BlobChange          // changes of the agent's blobs, in the order of their names
	// Node is the only server that can use the State of the Step, see [mailroom.Thread]. If it is "", any server can.
	Node string
	// Unpriced reports that it says no cost, and used tokens of a model whose price is not known.
	Unpriced bool

	// Set by Check, which does the expensive work before the transaction.
	sum   string   // digest
	asks  []ask    // all tickets to open
	sends []Submit // see [StepCommit.Submits]
}

// maxExtend is the longest time that a step may ask for. The claim's own bound is a setting.
const maxExtend = 365 * 24 * time.Hour

// checkExtend validates the time that a step asks for.
func checkExtend(by time.Duration) error {
	if by < 0 || by > maxExtend {
		return check.Invalid("extend", "must be a duration from 0s to 8760h", by.String())
	}
	return nil
}

// Appended is the result of a step.
type Appended struct {
	Seq int64 // last entry of the step
	// Left is how long the attempt may go on, if the step asked for time and the run was not asked to stop; 0: no
	// change.
	Left time.Duration
	// Budget is what is left of the run's budget, and Limit has its bounds; nil: the run has none.
	Budget, Limit *mailroom.Budget
	// Stop is why the attempt was asked to stop, "" if it was not. With [mailroom.ReasonBudget] the budget is spent.
	Stop mailroom.Reason
}

// Check validates a and normalizes the thread ids of its sends.
func (a *StepCommit) Check() error {
	if !check.IsClean(a.Step.Name) {
		return check.Invalid("name", "must be valid UTF-8 without NUL", a.Step.Name)
	}
	for _, n := range a.Step.Entries {
		if !check.IsClean(n.Kind) || n.Kind != entry.KindToolStarted && n.Kind != entry.KindToolDone &&
			!strings.HasPrefix(n.Kind, "x.") {
			return check.Invalid("kind", "must be tool.started, tool.finished, or begin with x.", n.Kind)
		}
		if err := check.JSON("body", n.Body, mailroom.MaxAgentEntry); err != nil {
			return err
		}
		if !check.IsObject(n.Body) {
			return check.Invalid("body", "must be a JSON object", truncate(string(n.Body), 80))
		}
	}
	if len(a.Step.Parts) > 0 { // a session has moved the parts into Message
		return check.Invalid("parts", "belong to the message of the step", len(a.Step.Parts))
	}
	if len(a.Step.State) == 0 {
		a.Step.State = nil
	} else if err := check.JSON("state", a.Step.State, mailroom.MaxState); err != nil {
		return err
	}
	if len(a.Step.Usage.Model) > mailroom.MaxLabel || !check.IsClean(a.Step.Usage.Model) {
		return check.Invalid("usage.model", fmt.Sprintf("must be text of at most %d bytes", mailroom.MaxLabel),
			len(a.Step.Usage.Model))
	}
	if p := a.Step.Progress; !(p >= 0 && p <= 1) { // NaN included
		return check.Invalid("progress", "must be between 0 and 1", p)
	}
	if err := checkExtend(a.Step.Extend); err != nil {
		return err
	}
	if len(a.Step.Checkpoint) == 0 {
		a.Step.Checkpoint = nil
	} else if err := check.JSON("checkpoint", a.Step.Checkpoint, mailroom.MaxCheckpoint); err != nil {
		return err
	}
	if err := checkAsks(a.Step.Tickets); err != nil {
		return err
	}
	if err := a.checkSends(); err != nil {
		return err
	}
	if err := a.Message.check(); err != nil {
		return err
	}
	if len(a.Step.Blobs) > 0 { // a session has uploaded the blobs and moved them into a.Blobs
		return check.Invalid("blobs", "are uploaded before the step", len(a.Step.Blobs))
	}
	if err := checkBlobs(a.Blobs); err != nil {
		return err
	}
	if a.Step.NoProgress && a.Message != nil && len(a.Message.Parts) > 0 {
		return check.Invalid("message.parts", "do not go with a step that records a circumstance: the message goes on", "")
	}
	a.asks, a.sum = digestAsks(a.allAsks()), a.digest()
	return nil
}

func (a *StepCommit) checkSends() error {
	if len(a.Step.Sends) > mailroom.MaxSends {
		return check.Invalid("sends", fmt.Sprintf("are more than %d", mailroom.MaxSends), len(a.Step.Sends))
	}
	a.Step.Sends = slices.Clone(a.Step.Sends) // do not change the caller's slice
	a.sends = make([]Submit, 0, len(a.Step.Sends))
	names := map[string]bool{}
	for i := range a.Step.Sends {
		s := &a.Step.Sends[i]
		if s.Name == "" || names[s.Name] {
			return check.Invalid("sends", "need names that are unique in the run", s.Name)
		}
		names[s.Name] = true
		if s.Thread = strings.TrimSpace(s.Thread); s.Thread != "" {
			id, err := check.ThreadID(s.Thread)
			if err != nil {
				return err
			}
			s.Thread = id
		}
		in := submitOf(*s, a.Run)
		if err := checkSend(s); err != nil {
			return err
		}
		if err := checkBudget(&in.Budget); err != nil {
			return err
		}
		if err := in.Check(); err != nil {
			return err
		}
		a.sends = append(a.sends, in)
	}
	return nil
}

// checkSend validates the fields of a send that its submit does not have.
func checkSend(s *mailroom.Send) error {
	shared := s.Mode == mailroom.ModeSteer || s.Mode == mailroom.ModeCollect
	switch {
	case s.Answer != mailroom.AnswerNone && shared:
		return check.Invalid("mode", "must be queue, latest, interrupt or reject for a send with an answer: "+
			"a message that joins a run has no run of its own that could answer", string(s.Mode))
	case s.Delay < 0 || s.Delay > maxTimeout || s.Delay > 0 && !s.NotBefore.IsZero():
		return check.Invalid("not_before", "must be one time, or one duration of at most ten years", s.Delay.String())
	case s.Delay > 0 && !canWait(s.Mode):
		return check.Invalid("not_before", "is allowed only with the modes queue, latest and collect", s.Delay.String())
	}
	return nil
}

// Submits returns the submits of the sends, at now, of a checked step by run r on thread from.
func (a *StepCommit) Submits(r *mailroom.Run, from *mailroom.Thread, now time.Time) []Submit {
	all := slices.Clone(a.sends)
	for i := range all {
		all[i].sendFrom(r, from, &a.Step.Sends[i], now)
	}
	return all
}

func (s *PartialText) check() error {
	switch {
	case s == nil:
		return nil
	case len(s.Text) > mailroom.MaxText:
		return check.TooLarge("text", fmt.Sprintf("is longer than %d bytes", mailroom.MaxText), len(s.Text))
	case !check.IsClean(s.Text):
		return check.Invalid("text", "must be valid UTF-8 without NUL", len(s.Text))
	case !check.IsClean(s.ID):
		return check.Invalid("message", "must be valid UTF-8 without NUL", s.ID)
	case len(s.Parts) == 0:
		return nil
	}
	if n := len(s.delivered()[0].Text); n > mailroom.MaxText {
		return check.TooLarge("message", fmt.Sprintf("has text and addresses of files of more than %d bytes",
			mailroom.MaxText), n)
	}
	if err := CheckFiles("message.", s.Parts, nil); err != nil {
		return err
	}
	return checkParts("message.", s.Parts, []string{mailroom.PartReasoning, mailroom.PartData, mailroom.PartFile})
}

// Size returns the approximate size of the step in bytes.
func (a *StepCommit) Size() int {
	n := len(a.Step.Checkpoint) + asksSize(a.Step.Tickets)
	for _, e := range a.Step.Entries {
		n += itemSize + len(e.Body)
	}
	for _, e := range a.Effects {
		n += itemSize + len(e.Body)
	}
	for _, s := range a.Step.Sends {
		n += threadSize + PartsSize(s.Parts) + len(s.Options)
	}
	if a.Message != nil {
		n += len(a.Message.Text) + PartsSize(a.Message.Parts) + partSize*len(a.Message.Parts)
	}
	return n
}

func (a *StepCommit) digest() string {
	return digest.Short(struct {
		Step    mailroom.Step
		Message *PartialText
		Covers  int64
		Effects []mailroom.AgentEntry
		Blobs   []BlobChange `json:",omitempty"` // without blobs, the digest equals that of older versions
	}{a.Step, a.Message, a.Covers, a.Effects, a.Blobs})
}

// CheckStep returns an error unless the claim is valid and the number follows the last step. For a
// repeat of the last step it returns that step's last seq; the step must not be appended again.
func (t *State) CheckStep(a *StepCommit) (seq int64, repeat bool, err error) {
	if a.sum == "" {
		if err := a.Check(); err != nil {
			return 0, false, err
		}
	}
	r, repeat, err := t.checkAttempt(a.Claim, a.Number, a.sum)
	switch {
	case repeat:
		return r.LastStep.Seq, true, nil
	case err != nil:
		return 0, false, err
	}
	if err := a.checkTargets(t.ID, r); err != nil {
		return 0, false, err
	}
	if err := checkUploads(t, a.Claim, a.Blobs); err != nil {
		return 0, false, err
	}
	return 0, false, t.Tickets.checkAsks(r.ID, a.asks)
}

// checkTargets refuses waits of run r of thread that could never end, and sends through too many
// threads.
func (a *StepCommit) checkTargets(thread string, r *mailroom.Run) error {
	for _, s := range a.Step.Sends {
		if len(r.Lineage) >= mailroom.MaxHops {
			return check.Invalid("sends", fmt.Sprintf("would pass through more than %d threads", mailroom.MaxHops), s.Name)
		}
		target := targetOf(s, r.ID)
		if s.Answer == mailroom.AnswerWait && (target == thread || slices.Contains(r.Lineage, target)) {
			return check.Invalid("sends", "cannot wait for the run's own thread or one that waits for it", target)
		}
	}
	return nil
}

// allAsks returns the tickets of a step: its own, and one for each send with AnswerWait.
func (a *StepCommit) allAsks() []mailroom.Ask {
	asks := slices.Clone(a.Step.Tickets)
	for _, s := range a.Step.Sends {
		if s.Answer == mailroom.AnswerWait {
			args, err := json.Marshal(map[string]string{"thread": targetOf(s, a.Run)})
			if err != nil {
				panic(err) // strings always encode
			}
			asks = append(asks, mailroom.Ask{Name: s.Name, Kind: mailroom.TicketChildren, Arguments: args})
		}
	}
	return asks
}

// Append commits a step that CheckStep accepted and returns the last seq. sent are the results of
// its sends, which were submitted before.
func (t *State) Append(a *StepCommit, sent []store.Submitted, now time.Time) (int64, error) {
	r, err := t.claimedRun(a.Claim)
	if err != nil {
		return 0, err
	}
	r.Step++
	if a.Step.Name != "" {
		t.append(entry.KindStep, r, now, entry.StepNamed{Name: a.Step.Name, Usage: a.Step.Usage})
	}
	t.appendMessage(r, a.Message, a.visibility(), false, now)
	for _, n := range append(slices.Clone(a.Step.Entries), a.Effects...) {
		t.append(n.Kind, r, now, n.Body)
	}
	t.openTickets(r, a.asks, now)
	for i, s := range sent {
		recordSend(r, a.Step.Sends[i].Name, s)
		t.append(entry.KindSend, r, now,
			entry.Sent{Thread: s.Thread, Message: s.Message, Run: s.Run, Answer: a.Step.Sends[i].Answer != mailroom.AnswerNone})
	}
	applyStep(&t.Thread, r, &a.Step)
	t.Attempts.use(r, a)
	lent(t, r, sent)
	spend(t, r, a, now)
	writeBlobs(t, r, a.Blobs, now)
	if a.Step.State != nil {
		keepSession(&t.Thread, r.Agent, a.Node)
	}
	if !a.Step.NoProgress {
		r.Crashes, r.Outages, r.OutageSince = 0, 0, time.Time{}
	}
	lengthen(r, a.Step.Extend, now)
	r.WaitsOn, r.WaitsSince = "", time.Time{}
	dropCovered(r, a.Covers)
	r.LastStep = mailroom.StepMark{Attempt: a.Attempt, Step: a.Number, Digest: a.sum, Seq: t.LastSeq}
	t.touchRun(r)
	t.schedule(now)
	return t.LastSeq, nil
}

// recordSend records the target thread of a named send whose message joined an existing run, so that no run was
// created for it.
func recordSend(r *mailroom.Run, name string, s store.Submitted) {
	if s.Disposition != store.DispositionResumed && s.Disposition != store.DispositionSteered {
		return
	}
	joined := maps.Clone(r.Joined) // the stored map may be shared
	if joined == nil {
		joined = map[string]string{}
	}
	joined[name] = s.Thread
	r.Joined = joined
}

// applyStep applies the checkpoint, state, progress and usage of a step to the row and the run.
func applyStep(row *mailroom.Thread, r *mailroom.Run, s *mailroom.Step) {
	if s.Checkpoint != nil {
		r.Checkpoint = s.Checkpoint
	}
	if s.State != nil {
		state := maps.Clone(row.State)
		if state == nil {
			state = map[string]json.RawMessage{}
		}
		state[r.Agent] = s.State
		row.State = state
	}
	if s.Progress > 0 {
		r.Progress = s.Progress
	}
	r.Usage = r.Usage.Plus(s.Usage)
}

// visibility returns the visibility of the message that the step completes.
func (a *StepCommit) visibility() string {
	if a.Step.Internal {
		return mailroom.VisibleInternal
	}
	return mailroom.VisibleAll
}

// appendMessage appends a message of the agent and drops its flushed text. Empty text appends
// nothing. A complete, public message becomes the run's reply.
func (t *State) appendMessage(r *mailroom.Run, s *PartialText, visibility string, partial bool, now time.Time) {
	if s == nil || s.Text == "" && len(s.Parts) == 0 {
		return
	}
	seq := t.append(entry.KindMessage, r, now, mailroom.Message{
		ID: s.ID, Thread: t.ID, Seq: t.LastSeq + 1, Role: mailroom.RoleAssistant, Sender: r.Agent,
		Text: s.Text, Parts: s.all(), Visibility: visibility, Run: r.ID, State: mailroom.MessageDone,
		Partial: partial, Truncated: s.Truncated, CreatedAt: now,
	})
	if !partial && visibility == mailroom.VisibleAll {
		parts := s.delivered()
		text := parts[0].Text
		r.Reply = &text
		// Blank messages are not delivered, nor is the word with which the agent says that it has nothing to say.
		if strings.TrimSpace(text) != "" && !isSilent(r, parts) {
			t.Outbox.deliver(&t.Thread, r, seq, parts)
		}
	}
	t.Partials.drop(r) // the message is in the log
	r.LastMessage = s.ID
	t.touchRun(r)
}

// isSilent reports whether the delivered parts of a message are the silent word of its run. So the reasoning of a model
// does not count, and a file does.
func isSilent(r *mailroom.Run, parts []mailroom.Part) bool {
	return len(parts) == 1 && display.IsSilent(parts[0].Text, r.Metadata[reserved.SilentWord])
}

// submitOf returns the submit of a send of a run, without the fields that depend on the rows of the run and
// its thread. The key of the submit makes a repeated send harmless.
func submitOf(s mailroom.Send, run string) Submit {
	target, id, key := SendIDs(s, run)
	return Submit{
		Thread: target, Run: id, Messages: []NewMessage{{Parts: s.Parts}}, Agent: s.Agent, Key: key, Parent: run,
		Mode: s.Mode, Priority: s.Priority, NotBefore: s.NotBefore, Deadline: s.Deadline, Timeout: s.Timeout,
		Options: s.Options, Metadata: s.Metadata, Budget: s.Budget,
	}
}

// sendFrom completes the submit of send s by run r on thread from. The digest of the step covers none of these fields.
func (in *Submit) sendFrom(r *mailroom.Run, from *mailroom.Thread, s *mailroom.Send, now time.Time) {
	if s.Delay > 0 {
		in.NotBefore = now.Add(s.Delay).Truncate(time.Microsecond)
	}
	in.Sender, in.Owner, in.By = r.Agent, from.Owner, auth.RunToken(from.Owner)
	in.ByServer = reserved.IsAgent(r.Agent) && r.Agent != reserved.Scheduler // a user chose where a schedule sends
	in.Origin = mailroom.Origin{Via: "run", Sender: r.Agent}
	lineage := append(slices.Clone(r.Lineage), from.ID)
	if in.Thread == from.ID && (r.Agent == reserved.Scheduler || r.Agent == reserved.Puller) {
		lineage = r.Lineage // the timer of a schedule goes on for years, the one of a pull request for weeks
		in.MaxCrashes = new(int)
		*in.MaxCrashes = mailroom.MaxLost
	}
	if reserved.IsBook(from.ID) {
		lineage = nil // a thread that schedules a message in each of its runs goes on for years too
	}
	in.From = &Descent{Thread: from.ID, Lineage: lineage}
	if s.Answer != mailroom.AnswerNone {
		in.From.Caller = &mailroom.Caller{Thread: from.ID, Run: r.ID, Name: s.Name, Answer: s.Answer}
	}
}

// SendIDs returns the thread, the run and the key of the submit that a send of a run makes.
func SendIDs(s mailroom.Send, run string) (target, id, key string) {
	return targetOf(s, run), digest.ID("send", run, s.Name), run + "/" + s.Name
}

// targetOf returns the id of the thread that a send of a run goes to.
func targetOf(s mailroom.Send, run string) string {
	if s.Thread == "" {
		return digest.ID("thread", run, s.Name)
	}
	return s.Thread
}
