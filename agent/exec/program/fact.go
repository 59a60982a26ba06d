package program

import (
	"encoding/json"
	"time"

	"mailroom"
)

// Event is something that a line of a program says. Its types are those below.
type Event interface{ fact() }

type (
	// Session is the id under which the program keeps the conversation.
	Session struct{ ID string }
	// MessageStarted says that another message begins. ID is the program's own.
	MessageStarted struct{ ID string }
	// Text is a piece of the message being written.
	Text struct{ Text string }
	// Passage is a whole passage of a message, which may have come in pieces before.
	Passage struct{ Message, Text string }

	ToolStarted struct {
		Call, Name string
		Arguments  json.RawMessage
	}
	// ToolFinished repeats Name and Arguments where the line has them: not every
	// call was announced.
	ToolFinished struct {
		Call, Name string
		Arguments  json.RawMessage
		OK         bool
		Summary    string
	}

	// Usage is what was consumed. What is marked as a total counts from the
	// session's beginning.
	Usage struct {
		mailroom.Usage
		TotalTokens, TotalCost bool
	}
	// Warning is trouble that the program goes on with. It is no sign of life: one
	// that waits for a network says so again and again.
	Warning struct{ Text string }

	// Question asks whether a call may be made.
	Question struct {
		ID, Call, Tool string
		About          string // in words, "" if the program has none
		Arguments      json.RawMessage
	}
	// Request wants an answer that nobody here can give.
	Request struct{ ID, Kind string }

	// End is the end of a turn. Text is what it came to, for a turn in which
	// nothing was said.
	End struct {
		OK         bool
		Aborted    bool // it was stopped in mid-turn
		Class      mailroom.Class
		Message    string // why it is not OK
		RetryAfter time.Duration
		Text       string
	}
)

func (Session) fact()        {}
func (MessageStarted) fact() {}
func (Text) fact()           {}
func (Passage) fact()        {}
func (ToolStarted) fact()    {}
func (ToolFinished) fact()   {}
func (Usage) fact()          {}
func (Warning) fact()        {}
func (Question) fact()       {}
func (Request) fact()        {}
func (End) fact()            {}

// ShowsProgress reports whether a line that says this shows that the program gets on.
func ShowsProgress(facts []Event) bool {
	for _, f := range facts {
		if _, trouble := f.(Warning); !trouble {
			return true
		}
	}
	return len(facts) == 0
}
