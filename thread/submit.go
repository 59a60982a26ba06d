package thread

import (
	"encoding/json"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/internal/check"
	"mailroom/internal/retry"
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
	// ByServer says that a part of the server submits, under the rights of By. It may create the threads that are
	// reserved for it.
	ByServer bool
	Origin   mailroom.Origin

	// Agent becomes the agent of the thread and of the run. "" is the thread's agent, or the default
	// one. AgentVersion pins the run; "" is the agent's current version.
	Agent        string
	AgentVersion string
	Mode         mailroom.Mode // what the messages do to a busy thread; "" is ModeQueue
	Key          string        // idempotency key; "": no key
	Priority     *int          // priority of the run; nil is DefaultPriority
	NotBefore    time.Time
	// Join is how long a new run waits for more messages of its sender, which then become messages of that run. At
	// most mailroom.MaxJoin, for channels only.
	Join time.Duration
	// Written is when the platform says that the messages were written, zero if it does not say. With Join, messages join
	// a run only if they were written within its time, however late they are read.
	Written time.Time
	// OnTheWay announces messages of the Origin that are being downloaded, instead of submitting them: see [HoldJoin].
	OnTheWay    bool
	ExpectRun   string // with ModeSteer: the run that must be current
	MaxAttempts int    // 0: as the worker or the agent says, see Run.AgentAttempts
	// Retry takes precedence over the policies of the worker and the agent. Its Attempts mean the same as
	// MaxAttempts: at most one of the two is set.
	Retry      retry.Policy
	MaxCrashes *int // see Run.CrashLimit
	// Deadline and Timeout, from the acceptance of the submit, are when the run ends; see Run.Deadline. At most one
	// is set. They are those of the run that the submit creates, if it creates one.
	Deadline time.Time
	Timeout  time.Duration
	Budget   mailroom.Budget // of the run that the submit creates, see Run.Budget; zero: none
	// NoRetry fails the run on any error of its agent, outages included. A lost claim is still
	// retried.
	NoRetry bool
	// LimitKey is the key of the run that the submit creates, see mailroom.Run.LimitKey. "": as
	// Resolved.KeyFrom says.
	LimitKey string
	Options  json.RawMessage
	Metadata map[string]string
	Parent   string   // run that the new one descends from, or ""
	From     *Descent // set if a run sends the messages

	// DeliverTo becomes the thread's DeliverTo, unless it has one. If this submit creates that
	// thread, DeliverAgent is its agent.
	DeliverTo    string
	DeliverAgent string
	// MustDeliver refuses the submit if the thread then does not deliver to DeliverTo.
	MustDeliver bool
	Cursor      *store.Cursor // moves with the submit, even for a repeat

	// lease is the budget of a run that another one sends, which lends it, see [Lend]; nil: Budget says it.
	lease    *mailroom.RunBudget
	sum      string   // digest, set by Check
	verdicts []string // of the Decisions, see [Decision.verdict], set by Check
}

// Descent is where the messages of a run come from.
type Descent struct {
	Thread  string           // thread of the run; the parent of the new thread, if the submit creates one
	Lineage []string         // threads that led to the new run, outermost first
	Caller  *mailroom.Caller // set if the run expects an answer
}

// Resolved has the rows that the ledger looks up for a submit, in the submit's transaction.
type Resolved struct {
	Agent            string // agent of the run, never ""
	AgentVersion     string
	MaxAttempts      int              // of the agent; 0: mailroom.DefaultAttempts
	KeyFrom          string           // metadata whose value is the concurrency key of a run without one; "": none
	DeliverTo        *mailroom.Thread // row of the submit's DeliverTo, which may not exist
	Queued           int              // current number of runs in the thread's queue
	MaxQueued        int              // most queued runs; 0: no limit
	ForeignNamespace bool             // as auth.Token.InForeignNamespace says of a new thread's id
	Reserved         []string         // prefixes of thread ids that only the operator may create
	BadVersion       error            // why the submit's AgentVersion is refused; nil: the agent has that version
	Budget           mailroom.Budget  // of a run whose submit says none
	BadBudget        error            // why the submit's budget cannot bound the agent; nil: it can
	BadOptions       error            // why the agent refuses the submit's options; nil: it accepts them
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
	for i := range in.Decisions {
		n += len(in.Decisions[i].Answer) + len(in.Decisions[i].Reason)
	}
	return n
}

// Cost is Size plus a fixed size for each item, to bound a batch.
func (in *Submit) Cost() int {
	n := in.Size() + itemSize*len(in.Decisions)
	for _, d := range in.Messages {
		n += itemSize + partSize*len(d.Parts)
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

// Scope returns how much of the queue of t Submit reads.
func (in *Submit) Scope(t *mailroom.Thread, now time.Time) Scope {
	switch in.Mode {
	case mailroom.ModeInterrupt, mailroom.ModeLatest, mailroom.ModeCollect:
		return ScopeAll
	}
	if !t.HeldAt.IsZero() && !t.HeldAt.After(now.Add(mailroom.MaxJoin)) {
		return ScopeJoin
	}
	if len(in.Decisions) > 0 {
		return ScopeHead // one of them may end the current run
	}
	if t.Current != "" || !t.Due.At.IsZero() && t.HeldAt.IsZero() && in.NotBefore.IsZero() && in.Join == 0 {
		return ScopeRow // the row has the head of the queue
	}
	return ScopeHead
}

// Submit accepts messages for the thread; the mode decides what happens if it is busy. A known key
// returns the first result, with the current status of the run, which must be loaded.
func (t *State) Submit(in Submit, found Resolved, now time.Time) (store.Submitted, error) {
	if in.sum == "" {
		if err := in.Check(); err != nil {
			return store.Submitted{}, err
		}
	}
	s := &submission{t, &in, found, now}
	if err := s.checkReachable(); err != nil {
		return store.Submitted{}, err
	}
	if first, repeat, err := t.Keys.Find(in.Key, in.sum); repeat || err != nil {
		if r := t.Run(first.Run); r != nil {
			first.Status = r.Status
		}
		return first, err
	}
	if found.BadVersion != nil {
		return store.Submitted{}, check.Invalid("agent_version", found.BadVersion.Error(), in.AgentVersion)
	}
	if found.BadOptions != nil { // not for a repeat, whose options were taken
		return store.Submitted{}, check.Invalid("options", found.BadOptions.Error(), "")
	}
	if found.BadBudget != nil {
		return store.Submitted{}, check.Invalid("budget", found.BadBudget.Error(), in.Budget.String())
	}
	if err := s.check(); err != nil {
		return store.Submitted{}, err
	}
	t.promote(now)
	s.ensureThread()
	out := s.apply()
	t.schedule(now)
	t.Keys.Record(in.Key, in.sum, out)
	if out.Disposition == store.DispositionQueued && in.lease != nil {
		out.Lent = in.lease.Part
	}
	return out, nil
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
