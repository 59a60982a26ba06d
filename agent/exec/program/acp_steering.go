package program

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// acpSteered are the messages that were sent to the agent beside the prompt.
type acpSteered struct {
	n       int               // messages that were sent
	sent    map[string]string // texts without an answer, by the id of the request
	refused []string          // texts that the agent did not take into its turn
	held    bool              // the prompt was answered, and the turn waits for the answers to sent
}

// canSteer reports whether the agent takes a message now: it announced the extension and works on the prompt. The
// protocol itself has no such method in version 1, and agents differ in what a second prompt does during a turn.
func (d *acpDialogue) canSteer() bool {
	return d.agent.Meta.Steering.Supported && d.open == acpPrompt && !d.stopping && !d.steering.held
}

// steer returns a request that gives the turn another message.
func (d *acpDialogue) steer(text string) string {
	s := &d.steering
	if s.sent == nil {
		s.sent = map[string]string{}
	}
	s.n++
	id := strconv.Quote(fmt.Sprint("steering-", s.n))
	s.sent[id] = text
	in := acpSteeringRequest{acpPromptRequest: d.promptOf(text)}
	in.Meta.Steering.IdleBehavior = "promptRequired"
	return acpLine(acpMessage{ID: json.RawMessage(id), Method: acpSteering, Params: acpJSON(in)})
}

// onSteeringAnswer keeps a message that the agent did not take, so that the next prompt has it.
func (d *acpDialogue) onSteeringAnswer(m acpMessage) {
	s := &d.steering
	id := string(m.ID)
	var r acpSteeringResponse
	if m.Error != nil || json.Unmarshal(m.Result, &r) != nil || r.Outcome != acpInjected {
		s.refused = append(s.refused, s.sent[id])
	}
	delete(s.sent, id)
	if s.held {
		d.onTurnEnd()
	}
}

// onTurnEnd ends the turn, unless the agent did not take a message: then that message is another prompt. The end waits
// for the answers to all messages, because a message and the end of the turn may cross.
func (d *acpDialogue) onTurnEnd() {
	s := &d.steering
	switch s.held = len(s.sent) > 0; {
	case s.held:
	case len(s.refused) > 0:
		text := strings.Join(s.refused, "\n\n")
		s.refused, d.message = nil, ""
		d.out = append(append(d.out, d.calls.announce("")...), MessageStarted{}) // what it wrote before is no reply
		d.request(acpPrompt, d.promptOf(text))
	default:
		d.end(End{OK: true})
	}
}
