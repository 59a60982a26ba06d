package mailroom

// Values of the string types of this package, by what has them. A message's state is derived from its run, not stored.
const (
	// Of a run: its Status, Mode and Reason, the Answer of a send, and the Class of an error.

	StatusQueued    Status = "queued"  // never started, or between two attempts
	StatusRunning   Status = "running" // claimed by a worker
	StatusWaiting   Status = "waiting" // parked until its tickets are decided; holds no claim
	StatusCompleted Status = "completed"
	StatusFailed    Status = "failed" // a dead letter
	StatusCancelled Status = "cancelled"

	ModeQueue     Mode = "queue"     // queues a run behind the others
	ModeSteer     Mode = "steer"     // hands the messages to the current run at its next step
	ModeInterrupt Mode = "interrupt" // replaces everything queued and stops the current run
	ModeLatest    Mode = "latest"    // replaces everything queued
	ModeCollect   Mode = "collect"   // adds the messages to the newest run that has not started
	ModeReject    Mode = "reject"    // refused unless the thread is idle

	ReasonCancelled   Reason = "cancelled"
	ReasonSuperseded  Reason = "superseded"
	ReasonInterrupted Reason = "interrupted"
	ReasonRetracted   Reason = "retracted"
	ReasonDeadline    Reason = "deadline" // its Deadline has passed
	ReasonBudget      Reason = "budget"   // its Budget is spent; the stop ends the attempt, not the run

	AnswerNone AnswerMode = ""     // not at all
	AnswerWait AnswerMode = "wait" // as the answer of a ticket with the send's name
	AnswerWake AnswerMode = "wake" // as an internal message to the sender's thread

	ClassTransient   Class = "transient"   // retried, counted as a failure
	ClassUnavailable Class = "unavailable" // retried for up to a day, not counted as a failure
	ClassPermanent   Class = "permanent"   // a dead letter after one attempt
	ClassExhausted   Class = "exhausted"   // attempts used up, or an outage that lasted too long
	ClassCrashed     Class = "crashed"     // its worker was lost too often

	// Of a ticket: its Kind, State and Decision.

	TicketApproval TicketKind = "approval" // a person approves or denies an action
	TicketInput    TicketKind = "input"    // a person answers
	TicketChildren TicketKind = "children" // a run that was sent to another thread ends
	TicketTimer    TicketKind = "timer"    // a time is reached
	TicketEvent    TicketKind = "event"    // an external event

	TicketOpen    TicketState = "open"
	TicketDecided TicketState = "decided"
	TicketExpired TicketState = "expired" // not decided in time; never counts as an approval
	TicketVoid    TicketState = "void"    // its run ended first

	VerdictApprove Verdict = "approve"
	VerdictDeny    Verdict = "deny"
	VerdictAnswer  Verdict = "answer"

	// Of a part: its Type; of a message: its Role, Visibility and State.

	PartText      = "text"
	PartData      = "data"
	PartFile      = "file"
	PartReasoning = "reasoning" // what a model thought before it answered; only agents write it

	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleSystem    Role = "system"

	VisibleAll      = "all"
	VisibleInternal = "internal"

	MessageAccepted   = "accepted"   // durable; no run has claimed it yet
	MessageDelivered  = "delivered"  // its run was claimed
	MessageRead       = "read"       // the agent has committed a step since, or its attempt has ended
	MessageDone       = "done"       // its run completed, or the agent wrote it
	MessageSuperseded = "superseded" // replaced by a newer message before it was read
	MessageRetracted  = "retracted"  // withdrawn by its sender before it was read
)
