package thread

import (
	"encoding/json"
	"fmt"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/entry"
	"mailroom/store"
)

// Submit is what a caller asks: to hand messages to a thread, to decide tickets of its current run,
// or both in one transaction.
type Submit struct {
	Thread    string // see check.ThreadID
	Run       string // id of the run, if one is created
	Messages  []NewMessage
	Decisions []Decision
	Sender    string      // identity of the submitter
	Owner     string      // owner of the thread, if this submit creates it
	By        *auth.Token // caller, who must see the thread; nil: the server itself
	Origin    mailroom.Origin

	// Agent becomes the agent of the thread and of the run. "" is the thread's agent, or the default
	// one. AgentVersion pins the run; "" is the agent's current version.
	Agent        string
	AgentVersion string
	Mode         mailroom.Mode // "" is ModeQueue
	Key          string        // idempotency key; "" is none
	Priority     *int          // nil is DefaultPriority
	NotBefore    time.Time
	ExpectRun    string // with ModeSteer: the run that must be current
	MaxAttempts  int    // 0 is DefaultAttempts
	// NoRetry fails the run on any error of its agent, outages included. A lost claim is still
	// retried.
	NoRetry  bool
	Options  json.RawMessage
	Metadata map[string]string
	Parent   string   // run that the new one descends from, or ""
	From     *Descent // set if a run sends the messages

	// DeliverTo becomes the thread's DeliverTo, unless it has one. If this submit creates that
	// thread, DeliverAgent is its agent.
	DeliverTo    string
	DeliverAgent string
	Cursor       *store.Cursor // moves with the submit, even for a repeat

	sum string // digest, set by Check
}

// Descent is where the messages of a run come from.
type Descent struct {
	Thread  string           // of the run; the parent of the thread, if the submit creates it
	Lineage []string         // threads that led to the new run, outermost first
	Caller  *mailroom.Caller // set if the run expects an answer
}

// Resolved is what the ledger looks up for a submit, in the submit's transaction.
type Resolved struct {
	Agent            string // agent of the run, never ""
	AgentVersion     string
	DeliverTo        *mailroom.Thread // row of the submit's DeliverTo, which may not exist
	Queued           int              // current number of runs in the thread's queue
	MaxQueued        int              // 0: no limit
	ForeignNamespace bool             // a new thread's id is in another token's namespace, see [auth.Token.InForeignNamespace]
	Reserved         []string         // prefixes of thread ids that only the operator may create
}

// submission is a submit in its transition.
type submission struct {
	*Submit
	found Resolved
}

// NewMessage is a message to submit.
type NewMessage struct {
	Role       mailroom.Role // "" is RoleUser
	Parts      []mailroom.Part
	Visibility string // "" is VisibleAll
}

// Size returns the approximate size of the submit in bytes.
func (in *Submit) Size() int {
	n := len(in.Options)
	for _, d := range in.Messages {
		n += PartsSize(d.Parts)
	}
	return n
}

// PartsSize returns the size of the text and data of parts in bytes.
func PartsSize(parts []mailroom.Part) (n int) {
	for _, p := range parts {
		n += len(p.Text) + len(p.Data)
	}
	return n
}

// maxCollectDelay bounds how long collected messages can delay a run.
const maxCollectDelay = 10 * time.Second

// Scope returns how much of the queue of t Submit reads.
func (in *Submit) Scope(t *mailroom.Thread) Scope {
	switch in.Mode {
	case mailroom.ModeInterrupt, mailroom.ModeLatest, mailroom.ModeCollect:
		return ScopeAll
	}
	if t.Current != "" || !t.Due.At.IsZero() && t.HeldAt.IsZero() && in.NotBefore.IsZero() {
		return ScopeRow // the row has the head of the queue
	}
	return ScopeHead
}

// Submit accepts messages for the thread; the mode decides what happens if it is busy. A known key
// returns the first result, with the current status of the run, which must be loaded.
func (t *State) Submit(asked Submit, found Resolved, now time.Time) (store.Submitted, error) {
	if asked.sum == "" {
		if err := asked.Check(); err != nil {
			return store.Submitted{}, err
		}
	}
	in := &submission{&asked, found}
	if err := t.checkReachable(in); err != nil {
		return store.Submitted{}, err
	}
	if first, repeat, err := t.Keys.Find(in.Key, in.sum); repeat || err != nil {
		if r := t.Run(first.Run); r != nil {
			first.Status = r.Status
		}
		return first, err
	}
	if err := t.checkSubmit(in, now); err != nil {
		return store.Submitted{}, err
	}
	if err := t.checkDelivery(in.deliveryPatch()); err != nil {
		return store.Submitted{}, err
	}
	if in.Mode == mailroom.ModeReject && !isIdle(&t.Thread) && t.resumeKind(in, now) == "" {
		return store.Submitted{}, mailroom.Errorf(mailroom.CodeBusy, "thread %q is busy; submit without mode reject to queue behind it", t.ID)
	}
	t.promote(now)
	t.ensureThread(in, now)
	out := t.apply(in, now)
	t.schedule(now)
	t.Keys.Record(in.Key, in.sum, out)
	return out, nil
}

func (t *State) apply(in *submission, now time.Time) store.Submitted {
	if len(in.Decisions) > 0 {
		k := t.decideAll(in.Decisions, now)
		if len(in.Messages) == 0 {
			r := t.Run(k.Run)
			return store.Submitted{Run: r.ID, Thread: t.ID, Place: r.Place, Status: r.Status, Disposition: store.DispositionResumed, Superseded: []string{}}
		}
	}
	if kind := t.resumeKind(in, now); kind != "" {
		return t.resume(kind, in, now)
	}
	switch in.Mode {
	case mailroom.ModeSteer:
		if t.canSteer(in, now) {
			return t.steer(in, now)
		}
	case mailroom.ModeCollect:
		if r := t.collectable(in); r != nil {
			return t.collect(r, in, now)
		}
	}
	r := t.enqueue(in, now)
	out := store.Submitted{Run: r.ID, Thread: t.ID, Place: r.Place, Status: mailroom.StatusQueued, Disposition: store.DispositionQueued, Superseded: []string{}}
	last := r.Inputs[len(r.Inputs)-1]
	out.Message, out.Seq = last.Message, last.Seq
	others := func(o *mailroom.Run) bool { return o != r }
	switch in.Mode {
	case mailroom.ModeInterrupt:
		out.Superseded = append(t.supersede(others, in.Sender, now), t.supersedeSteers(others, in.Sender, now)...)
		out.Stopping = t.stopCurrent(mailroom.ReasonInterrupted, in.Sender, now)
	case mailroom.ModeLatest:
		out.Superseded = t.supersede(others, in.Sender, now)
	}
	return out
}

// ensureThread creates the thread if it is new, and sets the requested agent.
func (t *State) ensureThread(in *submission, now time.Time) {
	if !t.Exists() {
		t.Open(in.found.Agent, in.Owner, now)
		if in.From != nil {
			t.Parent = in.From.Thread
		}
	}
	if in.Agent != "" {
		t.Agent = in.Agent
	}
	if t.DeliverTo == "" {
		t.DeliverTo = in.DeliverTo
	}
}

// Open creates the thread unless it exists. A delivery thread is created this way, before its first
// message.
func (t *State) Open(agent, owner string, now time.Time) {
	if t.Exists() {
		return
	}
	t.CreatedAt, t.UpdatedAt = now, now
	t.Owner, t.Agent = owner, agent
	t.FirstSeq, t.NextPlace = 1, 1
	t.Touch()
}

// deliveryPatch returns the change of the thread's DeliverTo.
func (in *submission) deliveryPatch() Patch {
	if in.DeliverTo == "" {
		return Patch{}
	}
	return Patch{By: in.By, DeliverTo: &in.DeliverTo, Target: in.found.DeliverTo}
}

// enqueue creates a run for the messages of in.
func (t *State) enqueue(in *submission, now time.Time) *mailroom.Run {
	r := t.newRun(in.Run, in, now)
	t.appendMessages(r, r.ID, in, now)
	t.touchRun(r)
	t.append(entry.KindQueued, r, now, queuedBody(r))
	return r
}

func (t *State) newRun(id string, in *submission, now time.Time) *mailroom.Run {
	r := &mailroom.Run{
		ID: id, Thread: t.ID, Agent: in.found.Agent, AgentVersion: in.found.AgentVersion,
		Mode: in.Mode, Priority: in.priority(), Place: takePlace(&t.Thread), SubmitKey: in.Key,
		Parent: in.Parent, Origin: in.Origin, Options: in.Options, Metadata: in.Metadata,
		MaxAttempts: in.MaxAttempts, NoRetry: in.NoRetry, Status: mailroom.StatusQueued, AvailableAt: now, CreatedAt: now,
		FirstSeq: t.LastSeq + 1,
	}
	if in.From != nil {
		r.Caller, r.Lineage = in.From.Caller, in.From.Lineage
	}
	if in.NotBefore.After(now) {
		r.Scheduled, r.NotBefore, r.AvailableAt = true, in.NotBefore, in.NotBefore
		if t.HeldAt.IsZero() || r.NotBefore.Before(t.HeldAt) {
			t.HeldAt = r.NotBefore
		}
	}
	return r
}

// appendMessages appends the messages of in and makes them inputs of r. run is the run that reads
// them: r or the current one. Message ids are "<r>.<seq>", so an id alone locates its entry.
func (t *State) appendMessages(r *mailroom.Run, run string, in *submission, now time.Time) {
	for _, d := range in.Messages {
		m := mailroom.Message{
			ID: fmt.Sprintf("%s.%d", r.ID, t.LastSeq+1), Thread: t.ID, Seq: t.LastSeq + 1,
			Role: d.Role, Sender: in.Sender, Text: JoinText(d.Parts), Parts: d.Parts,
			Visibility: d.Visibility, Run: run, State: mailroom.MessageAccepted, CreatedAt: now,
		}
		seq := t.append(entry.KindMessage, &mailroom.Run{ID: run}, now, m)
		if run == r.ID {
			r.InputBytes += int64(len(t.entries[len(t.entries)-1].Raw))
		}
		t.submitted = append(t.submitted, m)
		r.Inputs = append(r.Inputs, mailroom.Input{Message: m.ID, Seq: seq})
	}
}

func queuedBody(r *mailroom.Run) entry.RunQueued {
	b := entry.RunQueued{
		Agent: r.Agent, AgentVersion: r.AgentVersion, Mode: r.Mode, Priority: r.Priority,
		AvailableAt: r.AvailableAt, Origin: r.Origin, Messages: []string{},
	}
	for _, in := range r.Inputs {
		b.Messages = append(b.Messages, in.Message)
	}
	return b
}

// collectable returns the newest run, if it was never claimed and has the same agent and sender,
// and no parent. A manually retried run has listed its inputs already, so a message added to it
// would be in no transcript. A full run accepts nothing more, and older runs are not considered, to
// keep the order of messages.
func (t *State) collectable(in *submission) *mailroom.Run {
	newest := t.Runs.queue.newest(func(r *mailroom.Run) bool {
		return !r.Started && r.Agent == in.found.Agent && r.Origin.Sender == in.Origin.Sender && r.Parent == ""
	})
	if newest == nil || len(newest.Inputs)+len(in.Messages) > mailroom.MaxMessages || newest.InputBytes+2*int64(in.Size()) > maxCollected {
		return nil
	}
	return newest
}

// collect adds the messages to r. NotBefore delays a scheduled run, up to maxCollectDelay after its
// creation.
func (t *State) collect(r *mailroom.Run, in *submission, now time.Time) store.Submitted {
	t.appendMessages(r, r.ID, in, now)
	if at := in.NotBefore; r.Scheduled && at.After(r.NotBefore) {
		if limit := r.CreatedAt.Add(maxCollectDelay); at.After(limit) {
			at = limit
		}
		if at.After(r.NotBefore) {
			r.NotBefore, r.AvailableAt = at, at
		}
	}
	t.touchRun(r)
	last := r.Inputs[len(r.Inputs)-1]
	return store.Submitted{
		Message: last.Message, Seq: last.Seq, Run: r.ID, Thread: t.ID, Place: r.Place,
		Status: r.Status, Disposition: store.DispositionCollected, Superseded: []string{},
	}
}
