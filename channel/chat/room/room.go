// Package room decides what a room of a chat platform shows besides its messages: the text that an
// agent is writing, a typing indicator, and questions that are redrawn after their decision.
//
// A [State] is the view of one room. It is a pure state machine: its inputs are method calls, its
// outputs are [Action] values, and it does no I/O and reads no clock. The caller carries out the
// actions and reports the results. Nothing here is needed for a reply to arrive, so a State is not
// stored; [Saved] is.
package room

import (
	"time"

	"mailroom/channel/chat"
	"mailroom/entry"
	"mailroom/internal/display"
	"mailroom/stream"
)

const (
	// typingInterval is the time between typing indicators. Platforms show one for at least 5 s.
	typingInterval = 4 * time.Second
	// MaxPreviewRequests bounds the requests for the preview of one message, because other
	// deliveries may come first each time.
	MaxPreviewRequests = 5
	// UnfinishedMark ends a text that is still being written.
	UnfinishedMark = " …"

	minRefresh = 500 * time.Millisecond
)

// RefreshInterval returns the time between two ticks of a conversation.
func RefreshInterval(c *chat.Capabilities) time.Duration { return max(c.EditInterval, minRefresh) }

// Action is a call to make for a room.
type Action struct {
	Kind    ActionKind
	Run     string // run that writes, for ActionEdit and ActionPreview
	ID      string // id at the platform of the message to edit
	Text    string // text of the edit
	Message string // the agent's message whose preview is requested
	Ticket  string // ticket whose question is redrawn
	Try     int    // number of the request, from 1
}

// ActionKind is the kind of an action.
type ActionKind int

const (
	ActionNone    ActionKind = iota
	ActionTyping             // show a typing indicator
	ActionEdit               // edit a preview, if [State.MayEdit] still allows it
	ActionPreview            // request a delivery that sends a preview
	ActionRedraw             // request a delivery that redraws the room's decided questions
)

// State is the view of one room.
//
// A State is in memory only and outlives connections. What must outlive the process is [Saved], the
// state of the delivery thread of the room: the delivery that changes a message writes it.
type State struct {
	gone          bool                     // no action is due
	conversations map[string]*conversation // conversations by thread
	previews      map[string]*preview      // previews by run
	questions     map[string]*question     // questions by ticket
}

// conversation is a followed conversation.
type conversation struct {
	after int64 // entries after it are shown; 0: after the last one

	// Set by Apply.
	run     string // running; "" for none
	message string // being written; "" for none
	text    string // text of message

	// Set by Tick.
	requestedFor string // message whose preview was requested
	requests     int
	nextRequest  time.Time // earliest time
	lastRun      string    // run of the last tick
	lastTyping   time.Time
}

// preview is the preview of the text that a run is writing.
type preview struct {
	text  string // text at the time of the request
	id    string // id of the message at the platform, "" if it was not sent
	shown string // text that this message shows
}

// New returns the view of a room in which nothing happens.
func New() *State {
	return &State{conversations: map[string]*conversation{}, previews: map[string]*preview{},
		questions: map[string]*question{}}
}

// IsIdle reports whether the view equals a new one, except that its room may be gone.
func (s *State) IsIdle() bool {
	return len(s.conversations) == 0 && len(s.previews) == 0 && len(s.questions) == 0
}

// SetGone records whether the platform accepts nothing more for the room.
func (s *State) SetGone(gone bool) {
	if s.gone = gone; gone {
		clear(s.previews)
		clear(s.questions)
	}
}

// Follow begins to show a conversation, or continues it over another connection. after is the
// entry after which it is shown.
func (s *State) Follow(thread string, after int64) {
	c := s.conversations[thread]
	if c == nil {
		c = &conversation{}
		s.conversations[thread] = c
	}
	c.after, c.run, c.message, c.text = after, "", "", ""
}

// Followed returns the followed conversations with the entry after which they are shown.
func (s *State) Followed() map[string]int64 {
	all := map[string]int64{}
	for thread, c := range s.conversations {
		all[thread] = c.after
	}
	return all
}

// Unfollow ends a conversation.
func (s *State) Unfollow(thread string) {
	if c := s.conversations[thread]; c != nil {
		delete(s.previews, c.lastRun)
		delete(s.conversations, thread)
	}
}

// Apply applies an event of a followed conversation's stream.
func (s *State) Apply(thread string, e stream.Event) {
	c := s.conversations[thread]
	switch {
	case c == nil:
	case e.Delta != nil && !e.Delta.IsText(): // a chat shows what the agent writes
	case e.Delta != nil:
		d := e.Delta
		if c.message != d.Message {
			c.message, c.text = d.Message, ""
		}
		if d.Offset <= len(c.text) {
			c.run, c.text = d.Run, c.text[:d.Offset]+d.Text
		}
	case e.Entry == nil:
	case e.Entry.Kind == entry.KindStarted, e.Entry.Kind == entry.KindResumed:
		c.run, c.message, c.text = e.Entry.Run, "", ""
	case e.Entry.Run != c.run:
	case e.Entry.Kind == entry.KindMessage:
		c.message, c.text = "", ""
	case e.Entry.Kind == entry.KindRescheduled, e.Entry.Kind == entry.KindWaiting,
		e.Entry.Kind == entry.KindCompleted, e.Entry.Kind == entry.KindFailed, e.Entry.Kind == entry.KindCancelled:
		c.run, c.message, c.text = "", "", ""
	}
}

// Tick is the time of a look at a conversation, and what the connection allows then.
type Tick struct {
	Now      time.Time
	Caps     *chat.Capabilities
	Previews bool // texts are shown while they are written, which needs edits
	Free     bool // the rate limits admit an edit now
}

// Tick returns what to do for a conversation: show its text, or else that its agent is typing.
func (s *State) Tick(thread string, t Tick) Action {
	c := s.conversations[thread]
	if c == nil || c.run == "" || s.gone {
		return Action{}
	}
	c.lastRun = c.run
	shown := ""
	if t.Previews {
		shown = unfinished(c.text, t.Caps)
	}
	p := s.previews[c.run]
	switch {
	case shown == "":
		if !t.Caps.Typing || t.Now.Sub(c.lastTyping) < typingInterval {
			return Action{}
		}
		c.lastTyping = t.Now
		return Action{Kind: ActionTyping}
	case p == nil || p.id == "":
		return s.requestPreview(c, t)
	case p.shown == shown:
		return Action{}
	}
	return Action{Kind: ActionEdit, Run: c.run, ID: p.id, Text: shown}
}

// requestPreview returns a request for the preview of the message being written.
func (s *State) requestPreview(c *conversation, t Tick) Action {
	if c.requestedFor != c.message {
		c.requestedFor, c.requests, c.nextRequest = c.message, 0, time.Time{}
	}
	if c.requests == MaxPreviewRequests || t.Now.Before(c.nextRequest) || !t.Free {
		return Action{}
	}
	c.requests++
	c.nextRequest = t.Now.Add(time.Duration(c.requests) * 3 * RefreshInterval(t.Caps))
	s.previews[c.run] = &preview{text: c.text}
	return Action{Kind: ActionPreview, Run: c.run, Message: c.message, Try: c.requests}
}

// PreviewText returns the text with which the requested preview of a run is sent, "" for none.
func (s *State) PreviewText(run string, c *chat.Capabilities) string {
	if p := s.previews[run]; p != nil {
		return unfinished(p.text, c)
	}
	return ""
}

// unfinished returns the form in which a text that is still being written is shown, "" for none.
func unfinished(text string, c *chat.Capabilities) string {
	return chat.TextHead(display.Text(text), *c, UnfinishedMark)
}

// PreviewSent records that a preview with a text was sent.
func (s *State) PreviewSent(run, id, shown string) {
	p := s.previews[run]
	if p == nil {
		p = &preview{}
		s.previews[run] = p
	}
	p.id, p.shown = id, shown
}

// MayEdit reports whether a message is still the preview of a run.
func (s *State) MayEdit(run, id string) bool {
	p := s.previews[run]
	return p != nil && p.id == id
}

// Edited records that a preview was edited.
func (s *State) Edited(run, id, shown string) {
	if s.MayEdit(run, id) {
		s.previews[run].shown = shown
	}
}

// DropPreview forgets the preview of a run, because its reply is being delivered or it cannot be
// edited. No edit of it follows.
func (s *State) DropPreview(run string) { delete(s.previews, run) }
