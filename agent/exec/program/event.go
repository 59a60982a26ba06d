package program

import (
	"encoding/json"
	"time"

	"mailroom"
)

// Event is something that a line of a program reports. Its types are those below.
type Event interface{ isEvent() }

type (
	// Session is the id of the program's conversation.
	Session struct{ ID string }
	// MessageStarted marks the start of a message. ID is the program's own.
	MessageStarted struct{ ID string }
	// Text is a chunk of the message being written.
	Text struct{ Text string }
	// Thinking is a chunk of what the program thinks. It is no part of a message.
	Thinking struct{ Text string }
	// Passage is a complete passage of a message, which may repeat earlier chunks.
	Passage struct{ Message, Text string }

	ToolStarted struct {
		Call, Name string
		Arguments  json.RawMessage
	}
	// ToolFinished repeats Name and Arguments if the line has them, because a program may report a
	// call only when it ends.
	ToolFinished struct {
		Call, Name string
		Arguments  json.RawMessage
		OK         bool
		Summary    string
	}

	// Usage is what was consumed. Fields marked as totals count from the start of the session.
	Usage struct {
		mailroom.Usage
		TotalTokens, TotalCost bool
	}
	// Warning is a problem that does not stop the program. It does not count as progress: a program
	// without a network repeats it.
	Warning struct{ Text string }

	// Question asks for permission to call a tool.
	Question struct {
		ID, Call, Tool string
		About          string // description in words, "" if absent
		Arguments      json.RawMessage
	}
	// Request is a request of a kind that is not supported.
	Request struct{ ID, Kind string }

	// End is the end of a turn. Text is its result, used if the turn produced no other text.
	End struct {
		OK         bool
		Aborted    bool // stopped in mid-turn
		Class      mailroom.Class
		Message    string // error message, if not OK
		RetryAfter time.Duration
		Text       string
	}
)

func (Session) isEvent()        {}
func (MessageStarted) isEvent() {}
func (Text) isEvent()           {}
func (Thinking) isEvent()       {}
func (Passage) isEvent()        {}
func (ToolStarted) isEvent()    {}
func (ToolFinished) isEvent()   {}
func (Usage) isEvent()          {}
func (Warning) isEvent()        {}
func (Question) isEvent()       {}
func (Request) isEvent()        {}
func (End) isEvent()            {}

// ShowsProgress reports whether a line with these events shows that the program is making progress:
// it contains anything but warnings.
func ShowsProgress(events []Event) bool {
	for _, f := range events {
		if _, trouble := f.(Warning); !trouble {
			return true
		}
	}
	return len(events) == 0
}
