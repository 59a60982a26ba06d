package exec

import (
	"slices"

	"mailroom/agent/exec/program"
)

// calls are the tool calls that have no result yet, in the order in which they began. A program that is silent while
// such a call is open does not count as hanging.
type calls []openCall

type openCall struct{ id, name string }

func (c *calls) apply(event program.Event) {
	switch e := event.(type) {
	case program.ToolStarted:
		if !slices.ContainsFunc(*c, func(o openCall) bool { return o.id == e.Call }) {
			*c = append(*c, openCall{e.Call, e.Name})
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

// working reports whether the program waits for a call. A call that waits for a person's approval does not count,
// because the program has to end its turn for it.
func (t *attempt) working() bool {
	return t.turn != nil && t.turn.calls.except(t.turn.parkedCall) != ""
}
