package exec

import (
	"encoding/json"
	"slices"
	"strings"

	"mailroom/agent/exec/program"
)

// calls are the tool calls that have no result yet, in the order in which they began. A program that is silent while
// such a call is open does not count as hanging.
type calls []openCall

type openCall struct {
	id, name string
	args     json.RawMessage
}

func (c *calls) apply(event program.Event) {
	switch e := event.(type) {
	case program.ToolStarted:
		if !slices.ContainsFunc(*c, func(o openCall) bool { return o.id == e.Call }) {
			*c = append(*c, openCall{e.Call, e.Name, e.Arguments})
		}
	case program.ToolFinished:
		*c = slices.DeleteFunc(*c, func(o openCall) bool { return o.id == e.Call })
	case program.MessageStarted, program.End:
		// The model has got the results of all calls, including a call whose result the program did not report.
		*c = nil
	}
}

// except returns the name of the oldest open call whose id is not id, or "" if there is no other.
func (c calls) except(id string) string {
	for _, o := range c {
		if o.id != id {
			return o.name
		}
	}
	return ""
}

// waitsOn says which call the silent program waits for, "" if it waits for none: the oldest, with the command that it
// runs, if its arguments name one.
func (c calls) waitsOn() string {
	if len(c) == 0 {
		return ""
	}
	var args struct{ Command any }
	if json.Unmarshal(c[0].args, &args) != nil {
		args.Command = nil // the arguments are no object
	}
	text := "tool call: " + c[0].name
	switch command := args.Command.(type) {
	case string:
		text += " " + command
	case []any:
		for _, word := range command {
			if s, ok := word.(string); ok {
				text += " " + s
			}
		}
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\x00", "")
}

// working reports whether the program waits for a call. A call that waits for a person's approval does not count,
// because the program has to end its turn for it.
func (t *attempt) working() bool {
	return t.turn != nil && t.turn.calls.except(t.turn.parkedCall) != ""
}
