package program

import (
	"encoding/json"
	"slices"
	"strings"
)

// acpCalls are the tool calls of a turn that have not ended, in the order in which they began. Agents announce a call
// before they know all of its input, so a call is reported with the first update that has input, or once something else
// happens.
type acpCalls []*acpCall

type acpCall struct {
	acpToolCall
	content   json.RawMessage // list of acpToolContent
	announced bool
}

func (c acpCalls) find(id string) *acpCall {
	if i := slices.IndexFunc(c, func(x *acpCall) bool { return x.CallID == id }); i >= 0 {
		return c[i]
	}
	return nil
}

// merge adds what an update says about a call and returns the call. Fields that it leaves out stay.
func (c *acpCalls) merge(u acpToolCall, content json.RawMessage) *acpCall {
	call := c.find(u.CallID)
	if call == nil {
		call = &acpCall{acpToolCall: acpToolCall{CallID: u.CallID}}
		*c = append(*c, call)
	}
	for _, f := range []struct {
		to   *string
		from string
	}{{&call.Title, u.Title}, {&call.Name, u.Name}, {&call.ToolKind, u.ToolKind}, {&call.Status, u.Status}} {
		if f.from != "" {
			*f.to = f.from
		}
	}
	for _, f := range []struct {
		to   *json.RawMessage
		from json.RawMessage
	}{{&call.RawInput, u.RawInput}, {&call.RawOutput, u.RawOutput}, {&call.content, content}} {
		if !null(f.from) {
			*f.to = f.from
		}
	}
	if u.Locations != nil {
		call.Locations = u.Locations
	}
	return call
}

// update returns the events of an update of a call.
func (c *acpCalls) update(u acpToolCall, content json.RawMessage) (events []Event) {
	if u.CallID == "" {
		return nil
	}
	first := c.find(u.CallID) == nil
	call := c.merge(u, content)
	ended := call.Status == "completed" || call.Status == "failed"
	if !call.announced && (call.hasInput() && !first || call.Status == "in_progress" || ended) {
		events = c.announce(u.CallID)
	}
	if ended {
		*c = slices.DeleteFunc(*c, func(x *acpCall) bool { return x == call })
		events = append(events, ToolFinished{Call: call.CallID, OK: call.Status == "completed", Summary: call.output()})
	}
	return events
}

// announce reports the call with this id, or all calls if id is "", unless they were reported.
func (c acpCalls) announce(id string) (events []Event) {
	for _, call := range c {
		if !call.announced && (id == "" || call.CallID == id) {
			call.announced = true
			events = append(events, ToolStarted{Call: call.CallID, Name: call.name(), Arguments: call.arguments()})
		}
	}
	return events
}

func (c *acpCall) hasInput() bool {
	return !null(c.RawInput) && string(c.RawInput) != "{}"
}

// name returns the name of the tool, else its kind, else the title of the call, which often contains its arguments.
func (c *acpCall) name() string {
	switch {
	case c.Name != "":
		return cut(c.Name, 100)
	case c.ToolKind != "" && c.ToolKind != "other":
		return c.ToolKind
	case c.Title != "":
		return cut(strings.TrimSpace(c.Title), 100)
	}
	return "tool"
}

// arguments returns the input of a call. For an agent that sends none it is what the call says about itself.
func (c *acpCall) arguments() json.RawMessage {
	if c.hasInput() {
		return c.RawInput
	}
	said := map[string]any{}
	if c.Title != "" {
		said["title"] = c.Title
	}
	if len(c.Locations) > 0 {
		said["locations"] = c.Locations
	}
	if !null(c.content) {
		said["content"] = c.content
	}
	return acpJSON(said)
}

// output returns what a call has produced as text.
func (c *acpCall) output() string {
	if text := acpOutput(c.content); text != "" {
		return text
	}
	var text string
	if null(c.RawOutput) || json.Unmarshal(c.RawOutput, &text) == nil {
		return text
	}
	return string(c.RawOutput)
}

// acpFate says what became of a prompt, as the replay of its session shows.
type acpFate int

const (
	acpAbsent      acpFate = iota // the session has no prompt of the run
	acpInterrupted                // the session has a prompt of the run, and no message after it and its calls
	acpAnswered                   // the session ends with a message after the last prompt of the run
)

// acpReplay judges a replay. It remembers only what follows the latest message of the user.
type acpReplay struct {
	run, last string // beginnings of the prompts of the run, and of the prompt before

	seen    bool // a prompt of the run was seen
	latest  bool // the latest message of the user is the prompt before
	inUser  bool // a message of the user is being replayed
	id      string
	user    string          // its beginning
	answer  bool            // a message followed the latest message of the user and its last call
	pending map[string]bool // calls after it that have not ended
}

// add records an update of a replay.
func (r *acpReplay) add(u acpChange) {
	var block acpContent
	switch u.Kind {
	case "user_message_chunk":
		if json.Unmarshal(u.Content, &block) != nil {
			return
		}
		// An agent without ids may replay one prompt after another: the one that was cancelled had no answer.
		if !r.inUser || u.MessageID != r.id || u.MessageID == "" && strings.HasPrefix(block.Text, acpMark("")) {
			r.inUser, r.id, r.user, r.latest = true, u.MessageID, "", false
			r.answer = false
			r.pending = map[string]bool{}
		}
		if room := len(r.run) + len(r.last) - len(r.user); room > 0 {
			r.user = strings.TrimLeft(r.user+block.Text[:min(room, len(block.Text))], " \n")
		}
		r.seen = r.seen || strings.HasPrefix(r.user, r.run)
		r.latest = strings.HasPrefix(r.user, r.last)
	case "agent_message_chunk":
		r.inUser = false
		// Beside prompts with ids, a chunk without one may be no message of the model: codex-acp sends its warnings so.
		r.answer = r.answer || u.MessageID != "" || r.id == ""
	case "agent_thought_chunk":
		r.inUser = false
	case "tool_call", "tool_call_update":
		r.inUser, r.answer = false, false
		switch {
		case u.Status == "completed" || u.Status == "failed":
			delete(r.pending, u.CallID)
		case u.Kind == "tool_call" && r.pending != nil:
			r.pending[u.CallID] = true
		}
	}
}

// judge returns what became of the prompt before.
func (r *acpReplay) judge() acpFate {
	switch {
	case !r.seen:
		return acpAbsent
	case r.latest && r.answer && len(r.pending) == 0:
		return acpAnswered
	}
	return acpInterrupted
}
