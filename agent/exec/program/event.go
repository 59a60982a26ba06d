package program

import (
	"encoding/json"
	"time"

	"mailroom"
)

// Event is something that a line of a program reports. It is one of the types below.
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

	// ToolStarted reports that a tool call began. Helper is set for a call of a subagent, which does not end the
	// message that the program writes.
	ToolStarted struct {
		Call, Name string
		Arguments  json.RawMessage
		Helper     bool
	}
	// ToolFinished repeats Name and Arguments if the line has them, because a program may report a
	// call only when it ends.
	ToolFinished struct {
		Call, Name string
		Arguments  json.RawMessage
		OK         bool
		Summary    string
	}

	// Usage is the amount of tokens and money that was used. Fields marked as totals count from the start of the
	// session.
	Usage struct {
		mailroom.Usage
		TotalTokens, TotalCost bool
	}
	// Warning is a problem that does not stop the program. It does not count as progress, because a program without a
	// network repeats its warnings forever.
	Warning struct{ Text string }

	// Question asks for permission to call a tool. If Choices are set, it can be permitted in more than one way, and
	// Choice is the one that a person chose.
	Question struct {
		ID, Call, Tool string
		About          string // description in words, "" if absent
		Arguments      json.RawMessage
		Choices        []string
		Choice         string
	}
	// Request is a request of a kind that is not supported.
	Request struct{ ID, Kind string }
	// Send is input that the program has to get, such as the answer to a request.
	Send struct{ Text string }

	// Notice is text that the program wrote in place of the model, such as an error of the API.
	Notice struct{ Text string }
	// Limit reports that a limit of use was reached, and when it ends.
	Limit struct{ End time.Time }

	// End is the end of a turn. Text is its result, used if the turn produced no other text.
	End struct {
		OK      bool
		Aborted bool           // stopped in mid-turn
		Class   mailroom.Class // class of the failure; "" if the message and the status decide it
		Status  int            // HTTP status of the model's API; 0 if unknown
		Message string         // error message, if not OK
		Text    string
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
func (Notice) isEvent()         {}
func (Limit) isEvent()          {}
func (Question) isEvent()       {}
func (Request) isEvent()        {}
func (Send) isEvent()           {}
func (End) isEvent()            {}

// Works reports whether an event shows that the model answered: it wrote, thought, or called a tool.
func Works(event Event) bool {
	switch e := event.(type) {
	case Text:
		return e.Text != ""
	case Passage:
		return e.Text != ""
	case Thinking, ToolStarted, ToolFinished, Question:
		return true
	}
	return false
}

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
