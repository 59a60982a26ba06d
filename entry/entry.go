// Package entry defines what the log of a thread contains: the kinds of entries, their bodies and
// their encoding.
package entry

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"mailroom"
)

// Kinds of entries. Kinds under "x." belong to agents.
//
// Servers of two versions may share a store, so a log may have kinds that a program does not know.
// It passes them on and draws no conclusion from them. A new kind must therefore change nothing
// that earlier programs derive from the other entries. If it must, as a new status of runs does, one
// version reads it and only the next one writes it.
const (
	KindMessage     = "message"            // Message
	KindMessageRead = "message.read"       // MessageRef: a steered message was read
	KindEdited      = "message.edited"     // Edited
	KindRetracted   = "message.retracted"  // MessageRef
	KindQueued      = "run.queued"         // RunQueued
	KindStarted     = "run.started"        // RunStarted
	KindResumed     = "run.resumed"        // body RunStarted, after a wait
	KindRescheduled = "run.rescheduled"    // RunRescheduled
	KindStop        = "run.stop_requested" // RunStop
	KindCompleted   = "run.completed"      // RunCompleted
	KindFailed      = "run.failed"         // RunFailed
	KindCancelled   = "run.cancelled"      // RunStop
	KindRetried     = "run.retried"        // RunRetried
	KindStep        = "step"               // StepNamed
	KindToolStarted = "tool.started"       // body ToolStarted, written by the agent
	KindToolDone    = "tool.finished"      // body ToolDone, written by the agent
	KindSend        = "send"               // Sent
	KindWaiting     = "run.waiting"        // RunWaiting

	KindTicketOpened  = "ticket.opened"  // Ticket
	KindTicketDecided = "ticket.decided" // TicketDecision
	KindTicketExpired = "ticket.expired" // TicketRef

	KindBudgetLow    = "budget.low"    // BudgetState: 80 % are spent
	KindBudgetSpent  = "budget.spent"  // BudgetState: the attempt is asked to stop
	KindBudgetRaised = "budget.raised" // BudgetRaised

	KindEffectIntended = "effect.intended" // Effect
	KindEffectSettled  = "effect.settled"  // Effect
	KindEffectUnknown  = "effect.unknown"  // Effect

	// Entries of projects, without a run.
	KindNotification = "notification"         // Notification
	KindReserved     = "reservation.taken"    // Reservation
	KindReleased     = "reservation.released" // ReservationEnd
	KindLapsed       = "reservation.lapsed"   // ReservationEnd

	// Entries of channels, without a run.
	KindChannel = "channel.changed" // format of the channel

	// Entries of the audit log, without a run.
	KindAudit = "audit" // Audit
)

// Bodies of entries; the kinds above name them.
type (
	// MessageRef names a message. In a message.read, Seq is the entry with its content: the
	// message, or its last edit.
	MessageRef struct {
		Message string `json:"message"`
		Seq     int64  `json:"seq,omitempty"`
	}
	Edited struct {
		Message string          `json:"message"`
		Text    string          `json:"text"`
		Parts   []mailroom.Part `json:"parts"`
	}
	RunQueued struct {
		Agent        string          `json:"agent"`
		AgentVersion string          `json:"agent_version"`
		Mode         mailroom.Mode   `json:"mode"`
		Priority     int             `json:"priority"`
		AvailableAt  time.Time       `json:"available_at"`
		Messages     []string        `json:"messages"`
		Origin       mailroom.Origin `json:"origin"`
	}
	// RunStarted lists in Messages the seqs of the entries whose messages the run reads for the
	// first time: all inputs at the first start, none at a later attempt, so that the transcript can be
	// read backwards without looking for earlier starts. A run.resumed lists the messages that arrived
	// during the wait.
	RunStarted struct {
		Worker   string   `json:"worker"`
		Tickets  []string `json:"tickets,omitempty"`
		Messages []int64  `json:"messages"`
	}
	RunWaiting struct {
		Tickets []string   `json:"tickets"`
		Any     bool       `json:"any,omitempty"`
		Until   *time.Time `json:"until"`
	}
	TicketRef struct {
		Ticket string `json:"ticket"`
	}
	TicketDecision struct {
		Ticket    string           `json:"ticket"`
		Decision  mailroom.Verdict `json:"decision"`
		Answer    json.RawMessage  `json:"answer"`
		Reason    string           `json:"reason"`
		DecidedBy string           `json:"decided_by"`
	}
	RunRescheduled struct {
		Reason      string             `json:"reason"` // RescheduledRetry and so on
		Attempt     int                `json:"attempt"`
		AvailableAt time.Time          `json:"available_at"`
		Error       *mailroom.RunError `json:"error,omitempty"`
		// Behind is the run that starts before this one, which gave way: this one has its place in the queue again, and
		// that one a higher priority.
		Behind string `json:"behind,omitempty"`
	}
	RunStop struct {
		Reason mailroom.Reason `json:"reason"`
		By     string          `json:"by"`
		Forced bool            `json:"forced,omitempty"`
	}
	// RunCompleted has in Reason why the run ended before its agent was done: "budget", or "".
	RunCompleted struct {
		Reply  *string         `json:"reply"`
		Steps  int             `json:"steps"`
		Usage  mailroom.Usage  `json:"usage"`
		Reason mailroom.Reason `json:"reason,omitempty"`
	}
	// BudgetState is what became of the budget of a run when its Bound was reached: usd, tokens, turns, until, or lease.
	BudgetState struct {
		Bound  string           `json:"bound"`
		Of     string           `json:"of,omitempty"` // "": the budget of the run; else another one in words
		Budget mailroom.Budget  `json:"budget"`
		Spent  mailroom.Amounts `json:"spent"` // by the run, and by the runs that it sent and that have ended
		Lent   mailroom.Amounts `json:"lent"`  // to runs that are open
		// Unpriced is the model whose price is not known, or "unknown": the run has used dollars that Spent does not have.
		Unpriced string `json:"unpriced,omitempty"`
	}
	// BudgetRaised is a raise of a budget, which someone has approved.
	BudgetRaised struct {
		By     string           `json:"by"`
		Raise  mailroom.Amounts `json:"raise"`
		Budget mailroom.Budget  `json:"budget"` // from now on
	}
	RunFailed struct {
		Error    mailroom.RunError `json:"error"`
		Failures int               `json:"failures"`
		Crashes  int               `json:"crashes"`
	}
	RunRetried struct {
		By    string `json:"by"`
		Fresh bool   `json:"fresh,omitempty"` // checkpoint, effects and decisions were dropped
	}
	// ToolStarted and ToolDone are written by agents, and the server checks only that they are JSON objects: a reader
	// must expect any content. Call is unique in the run, and names the call in both.
	ToolStarted struct {
		Call      string          `json:"call"`
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments,omitempty"` // any JSON value
	}
	// ToolDone has in Summary what a list shows, and in Output the whole, if that is more.
	ToolDone struct {
		Call    string          `json:"call"`
		OK      bool            `json:"ok"`
		Summary string          `json:"summary,omitempty"`
		Output  json.RawMessage `json:"output,omitempty"` // a string, or any other JSON value
	}
	StepNamed struct {
		Name  string         `json:"name"`
		Usage mailroom.Usage `json:"usage,omitzero"` // usage of the step alone
	}
	// Audit is one action of an operator. Detail has what it changed, never a secret or the text of a message.
	Audit struct {
		Action     string            `json:"action"`      // such as token.create
		Actor      string            `json:"actor"`       // name of the token, or who decided in a chat; "": unknown
		ActorKind  string            `json:"actor_kind"`  // operator, token, session, limited, link or chat; "": no token
		Token      string            `json:"token"`       // row of the token; "": the operator's own, or none
		From       string            `json:"from"`        // remote address as the server sees it, or the channel
		ObjectKind string            `json:"object_kind"` // such as agent or run
		Object     string            `json:"object"`      // its name or id
		Thread     string            `json:"thread"`      // of the object; "": none
		Detail     map[string]string `json:"detail,omitempty"`
	}
	Sent struct {
		Thread  string `json:"thread"`
		Message string `json:"message"`
		Run     string `json:"run"`
		Answer  bool   `json:"answer"`
	}
)

// UnmarshalJSON decodes an edit. Its text shares the memory of the only part.
func (e *Edited) UnmarshalJSON(b []byte) error {
	type plain Edited
	if err := json.Unmarshal(b, (*plain)(e)); err != nil {
		return err
	}
	if len(e.Parts) == 1 && e.Parts[0].Text == e.Text {
		e.Text = e.Parts[0].Text
	}
	return nil
}

// New returns an encoded entry. body is one of the bodies above, or raw JSON for the kinds of
// agents.
func New(thread string, seq int64, kind, run string, attempt int, at time.Time, body any) (mailroom.Entry, error) {
	e := mailroom.Entry{Thread: thread, Seq: seq, Kind: kind, Run: run, Attempt: attempt, At: at}
	head := appendHead(make([]byte, 0, 512+textSize(body)), &e)
	raw, err := appendBody(head, body)
	if err != nil {
		return mailroom.Entry{}, fmt.Errorf("encode %s entry: %w", kind, err)
	}
	e.Raw = append(raw, '}')
	e.Body = json.RawMessage(e.Raw[len(head):len(raw):len(raw)])
	return e, nil
}

// textSize returns the size of the long texts of a message, to allocate the entry at once.
func textSize(body any) int {
	m, ok := body.(mailroom.Message)
	if !ok {
		return 0
	}
	n := len(m.Text)
	for _, p := range m.Parts {
		n += len(p.Text) + len(p.Data)
	}
	return n
}

// Known reports whether this program knows a kind of entry.
func Known(kind string) bool {
	switch kind {
	case KindMessage, KindMessageRead, KindEdited, KindRetracted,
		KindQueued, KindStarted, KindResumed, KindRescheduled, KindStop, KindCompleted, KindFailed, KindCancelled, KindRetried, KindWaiting,
		KindStep, KindToolStarted, KindToolDone, KindSend, KindTicketOpened, KindTicketDecided, KindTicketExpired,
		KindBudgetLow, KindBudgetSpent, KindBudgetRaised,
		KindEffectIntended, KindEffectSettled, KindEffectUnknown,
		KindNotification, KindReserved, KindReleased, KindLapsed, KindChannel, KindAudit:
		return true
	}
	return strings.HasPrefix(kind, "x.")
}

// Reads returns the seqs of the entries whose messages were read at e, in reading order. It defines
// the position of a message in a transcript: a run reads its inputs at its first start, messages
// that arrived during a wait when it resumes, and a steered message at its message.read.
func Reads(e mailroom.Entry) ([]int64, error) {
	switch e.Kind {
	case KindStarted, KindResumed:
		var body RunStarted
		err := e.Decode(&body)
		return body.Messages, err
	case KindMessageRead:
		var body MessageRef
		err := e.Decode(&body)
		return []int64{body.Seq}, err
	}
	return nil, nil
}

// ReadKinds returns the kinds of entries for which Reads may return seqs.
func ReadKinds() []string { return []string{KindStarted, KindResumed, KindMessageRead} }

// First returns the longest prefix of list with at most so many bytes of JSON, at least one
// entry. more reports whether a query with these Bytes may have left entries out.
func First(list []mailroom.Entry, bytes int) (first []mailroom.Entry, more bool) {
	sum := 0
	for i := range list {
		if sum += len(list[i].Raw); sum > bytes {
			return list[:max(1, i)], true
		}
	}
	return list, false
}
