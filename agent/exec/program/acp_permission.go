package program

import (
	"encoding/json"
	"slices"
)

// Kinds of the options of a request for permission. An option "always" writes a standing rule of the agent, which no
// person approved, so it never answers one approval.
const (
	acpAllowOnce    = "allow_once"
	acpRejectOnce   = "reject_once"
	acpRejectAlways = "reject_always"
)

// acpAsked is a request for permission that waits for [StdinProtocol.Allow] and its like.
type acpAsked struct{ options []acpPermissionOption }

// onPermission reports a request for permission as a question. Its call is identified by the kind of the tool and its
// input: the id of the call is another one when the agent asks again in another process.
func (d *acpDialogue) onPermission(m acpMessage) {
	var r acpPermissionRequest
	if json.Unmarshal(m.Params, &r) != nil || r.SessionID != d.session || r.ToolCall.CallID == "" {
		d.refuse(m.ID, acpInvalidParams, "the request names no call of this session")
		return
	}
	call := d.calls.merge(r.ToolCall.acpToolCall, r.ToolCall.Content)
	d.out = append(d.out, d.calls.announce(call.CallID)...)
	asked := acpAsked{options: r.Options}
	once := asked.of(acpAllowOnce)
	switch {
	case d.stopping || !d.working: // the protocol wants this answer in a cancelled turn; a replay asks no person
		d.out = append(d.out, Send{acpOutcome(m.ID, acpPermissionOutcome{Outcome: "cancelled"})})
	case d.turn.Mode == ModeAll && len(once) == 1:
		d.out = append(d.out, Send{acpSelected(m.ID, once[0].ID)})
	case len(once) == 0:
		d.out = append(d.out, Warning{Text: "the agent offers no permission for one call of " + call.name() +
			", only a standing rule; it was denied"}, Send{asked.denial(m.ID)})
	default:
		d.asked[string(m.ID)] = asked
		q := Question{ID: string(m.ID), Call: call.CallID, Tool: call.name(), About: call.Title, Arguments: call.arguments()}
		if len(once) > 1 {
			for _, o := range once {
				q.Choices = append(q.Choices, cut(o.Name, 200))
			}
		}
		d.out = append(d.out, q)
	}
}

// of returns the options of a kind.
func (a acpAsked) of(kind string) (options []acpPermissionOption) {
	for _, o := range a.options {
		if o.Kind == kind {
			options = append(options, o)
		}
	}
	return options
}

// denial returns an answer that denies a call: by an option that rejects it, and only without one by the answer that
// ends the turn.
func (a acpAsked) denial(id json.RawMessage) string {
	for _, kind := range []string{acpRejectOnce, acpRejectAlways} {
		if options := a.of(kind); len(options) > 0 {
			return acpSelected(id, options[0].ID)
		}
	}
	return acpOutcome(id, acpPermissionOutcome{Outcome: "cancelled"})
}

// allow permits a call by its only option for one call, or by the one that a person chose.
func (d *acpDialogue) allow(q Question) string {
	if d.stopping {
		return acpOutcome(json.RawMessage(q.ID), acpPermissionOutcome{Outcome: "cancelled"})
	}
	once := d.asked[q.ID].of(acpAllowOnce)
	if len(once) > 1 {
		once = slices.DeleteFunc(once, func(o acpPermissionOption) bool { return cut(o.Name, 200) != q.Choice })
	}
	if len(once) != 1 {
		return d.deny(q, "")
	}
	delete(d.asked, q.ID)
	return acpSelected(json.RawMessage(q.ID), once[0].ID)
}

// deny denies a call. The protocol has no place for the reason, which the agent gets with the next prompt.
func (d *acpDialogue) deny(q Question, _ string) string {
	asked := d.asked[q.ID]
	delete(d.asked, q.ID)
	if d.stopping {
		return acpOutcome(json.RawMessage(q.ID), acpPermissionOutcome{Outcome: "cancelled"})
	}
	return asked.denial(json.RawMessage(q.ID))
}

// ask cancels the turn, so that the run can wait for a person without a process.
func (d *acpDialogue) ask(q Question) string {
	delete(d.asked, q.ID)
	return d.stop() + acpOutcome(json.RawMessage(q.ID), acpPermissionOutcome{Outcome: "cancelled"})
}

func acpSelected(id json.RawMessage, option string) string {
	return acpOutcome(id, acpPermissionOutcome{Outcome: "selected", OptionID: option})
}

func acpOutcome(id json.RawMessage, o acpPermissionOutcome) string {
	return acpLine(acpMessage{ID: id, Result: acpJSON(acpPermissionResponse{Outcome: o})})
}
