// Package fold folds the log of one thread entry by entry and reports the rules that it violates.
// It implements the rules of every log from their description and shares no code with the
// transitions that wrote the log.
package fold

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"strconv"

	"mailroom"
	"mailroom/entry"
)

// Rule is the short, stable name of the rule that a violation breaks.
type Rule string

const (
	RuleSeq         Rule = "seq"     // entries follow each other without a gap and are readable
	RuleTransition  Rule = "log"     // each transition is possible
	RuleOrder       Rule = "order"   // runs start by priority and place
	RuleCurrent     Rule = "current" // at most one run has started and not ended
	RuleAttempt     Rule = "attempt" // attempts only grow
	RuleMessage     Rule = "message" // messages have their place in the log, and a run reads its messages
	RuleSteer       Rule = "steer"   // a steered message is read once by its run, or becomes a run
	RuleTicket      Rule = "ticket"  // a ticket is decided once, while its run is unfinished, and in time
	RuleReservation Rule = "reserve" // a reservation is made before it ends
)

// Violation is one broken rule. Run and Ticket are ids, or "" if the rule concerns none.
type Violation struct {
	Rule   Rule
	Run    string
	Ticket string
	Text   string // what is wrong, with the seq of the entry
}

// Log is the state of a thread after the entries that were folded so far. It keeps little for each run, ticket and
// message, because a log may be long. A log that does not begin with entry 1 was purged; runs and tickets that began
// before its first entry break no rule by that.
type Log struct {
	Thread       string
	First        int64 // seq of the first entry of the fold
	Last         int64 // seq of the last entry so far
	Bytes        int64 // bytes of all entries so far
	Current      string
	Runs         map[string]*Run
	Tickets      map[string]*Ticket
	Unread       map[string]*Message // unread steered messages by id
	Reservations map[string]int64    // fences of held reservations by id
	Sends        []Send              // since the caller last removed them

	messages map[int64]*Message // submitted messages by the seq of their entry
	queue    queue              // runs before their first start, in order
	seed     maphash.Seed
	found    []Violation
}

// Send is a message to another thread, as an entry of the sender's log records it.
type Send struct {
	entry.Sent
	Entry mailroom.Entry
}

// New returns the state of a thread whose log begins at the entry with the number first.
func New(thread string, first int64) *Log {
	return &Log{
		Thread: thread, First: first, Last: first - 1, Runs: map[string]*Run{}, Tickets: map[string]*Ticket{},
		Unread: map[string]*Message{}, Reservations: map[string]int64{}, messages: map[int64]*Message{},
		seed: maphash.MakeSeed(),
	}
}

// Add folds the next entry and returns the violations that it shows.
func (l *Log) Add(e mailroom.Entry) []Violation {
	l.found = nil
	if e.Seq != l.Last+1 {
		l.bad(RuleSeq, "", "entry %d follows entry %d", e.Seq, l.Last)
	}
	if e.Thread != l.Thread {
		l.bad(RuleSeq, "", "entry %d belongs to thread %q", e.Seq, e.Thread)
	}
	l.Last = max(l.Last, e.Seq)
	l.Bytes += int64(len(e.Raw))
	switch e.Kind {
	case entry.KindMessage:
		l.message(e)
	case entry.KindNotification, entry.KindReserved, entry.KindReleased, entry.KindLapsed, entry.KindChannel,
		entry.KindAudit:
		l.threadEntry(e)
	default:
		if !entry.Known(e.Kind) {
			break // an entry of a newer version
		}
		l.runEntry(e, l.run(e))
	}
	return l.found
}

// Hash returns the hash of a text, for the comparison with the hashes of a Run.
func (l *Log) Hash(text string) uint64 { return maphash.String(l.seed, text) }

// HashSeqs returns the hash of a list of entries, for the comparison with Run.Inputs.
func (l *Log) HashSeqs(seqs []int64) uint64 {
	var text []byte
	for _, seq := range seqs {
		text = append(strconv.AppendInt(text, seq, 10), ' ')
	}
	return maphash.Bytes(l.seed, text)
}

func (l *Log) bad(what Rule, run, format string, args ...any) {
	l.found = append(l.found, Violation{Rule: what, Run: run, Text: fmt.Sprintf(format, args...)})
}

func (l *Log) badTicket(run, ticket, format string, args ...any) {
	l.found = append(l.found, Violation{Rule: RuleTicket, Run: run, Ticket: ticket, Text: fmt.Sprintf(format, args...)})
}

// decode reads the body of an entry. An unreadable body is a violation.
func (l *Log) decode(e mailroom.Entry, body any) {
	if err := json.Unmarshal(e.Body, body); err != nil {
		l.bad(RuleSeq, e.Run, "entry %d, %s, is unreadable: %v", e.Seq, e.Kind, err)
	}
}

// runEntry folds an entry of a run that is not a message.
func (l *Log) runEntry(e mailroom.Entry, r *Run) {
	switch e.Kind {
	case entry.KindEdited, entry.KindRetracted:
		l.changed(e, r)
	case entry.KindQueued:
		l.queued(e, r)
	case entry.KindStarted, entry.KindResumed:
		l.started(e, r)
	case entry.KindRescheduled:
		l.rescheduled(e, r)
	case entry.KindWaiting:
		l.transition(e, r, StateWaiting, StateRunning)
		r.Stop = ""
	case entry.KindBudgetSpent:
		l.transition(e, r, StateRunning, StateRunning)
		r.Stop = mailroom.ReasonBudget
	case entry.KindBudgetLow, entry.KindBudgetRaised: // also while the run waits
	case entry.KindStop:
		var body entry.RunStop
		l.decode(e, &body)
		l.transition(e, r, StateRunning, StateRunning)
		r.Stop = body.Reason
	case entry.KindCompleted, entry.KindFailed, entry.KindCancelled:
		l.ended(e, r)
	case entry.KindRetried:
		l.retried(e, r)
	case entry.KindTicketOpened:
		l.opened(e, r)
	case entry.KindTicketDecided, entry.KindTicketExpired:
		l.decided(e, r)
	case entry.KindMessageRead:
		var body entry.MessageRef
		l.decode(e, &body)
		l.transition(e, r, StateRunning, StateRunning)
		l.reads(e, r, body.Message)
	case entry.KindSend:
		var body entry.Sent
		l.decode(e, &body)
		l.transition(e, r, StateRunning, StateRunning)
		l.Sends = append(l.Sends, Send{body, e})
	default: // a step, or an entry of a step
		l.transition(e, r, StateRunning, StateRunning)
	}
}
