package program

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mailroom"
)

// acpSessionGone begins the message of a failure that says that the agent does not have the session.
const acpSessionGone = "the agent does not have the session"

// acpDialogue is the client's side of one connection. The connection serves one turn: initialize, a session that is
// new, loaded or resumed, its mode, its model, and one prompt. One request is open at a time.
type acpDialogue struct {
	// Never changed.
	modes   []string // modes of the agent that suit the turn, the best first
	mustSet bool     // the configuration names the mode
	turn    Turn
	prompt  Prompt

	open     string // method of the open request; "" after the end
	id       int    // id of the open request
	out      []Event
	agent    acpInitializeResponse
	session  string
	settings acpSessionResponse
	mode     string // mode that was set; "" for none

	replay   acpReplay
	calls    acpCalls
	message  string // id of the message that the agent writes
	working  bool   // the prompt was sent
	stopping bool   // the turn was cancelled
	asked    map[string]acpAsked
	steering acpSteered
}

func newACPDialogue(modes []string, mustSet bool, t Turn, prompt Prompt) Dialogue {
	d := &acpDialogue{modes: modes, mustSet: mustSet, turn: t, prompt: prompt, open: acpInitialize, id: 1,
		replay: acpReplay{run: acpMark(prompt.Run)}, asked: map[string]acpAsked{}}
	if prompt.Again != nil {
		d.replay.last = acpMark(prompt.Again.Last) + "]"
	}
	return Dialogue{
		Begin: acpHello(), Decode: d.decode, MaxLine: acpMaxLine, Stop: d.stop, CanSteer: d.canSteer,
		Stdin: &StdinProtocol{Steer: d.steer, Allow: d.allow, Deny: d.deny, Ask: d.ask,
			Refuse: func(Request) string { return "" }},
	}
}

// acpMark begins the text of a prompt, without the bracket that ends it. A text that begins with it is also no command
// of the agent, which a slash at the beginning of a message would be.
func acpMark(mark string) string { return "[Mailroom " + mark }

// request sends a request. The dialogue goes on with its answer.
func (d *acpDialogue) request(method string, params any) {
	d.id++
	d.open = method
	d.out = append(d.out, Send{acpRequestLine(d.id, method, params)})
}

// end ends the turn.
func (d *acpDialogue) end(e End) {
	d.open = ""
	d.out = append(append(d.out, d.calls.announce("")...), e)
}

func (d *acpDialogue) fail(class mailroom.Class, format string, args ...any) {
	d.end(End{Class: class, Message: fmt.Sprintf(format, args...)})
}

// decode returns the events of a line, with the answers that the line demands.
func (d *acpDialogue) decode(line []byte) ([]Event, error) {
	var m acpMessage
	if err := decodeLine(line, &m); err != nil {
		return nil, err
	}
	d.out = nil
	switch asks := !null(m.ID); {
	case m.Method == acpPermission && asks:
		d.onPermission(m)
	case m.Method != "" && asks:
		d.refuse(m.ID, acpMethodNotFound, "Mailroom does not offer "+strconv.Quote(cut(m.Method, 100)))
	case m.Method == acpUpdate:
		var n acpSessionNotification
		if json.Unmarshal(m.Params, &n) == nil && n.SessionID == d.session {
			d.onUpdate(n.Update)
		}
	case m.Method != "": // a notification of an extension
	case asks && string(m.ID) == strconv.Itoa(d.id) && d.open != "" && !d.steering.held:
		d.onAnswer(m)
	case asks && d.steering.sent[string(m.ID)] != "":
		d.onSteeringAnswer(m)
	case asks || m.Error != nil || m.Result != nil: // late, or repeated
	default:
		return nil, errors.New("the line is no message of JSON-RPC")
	}
	return d.out, nil
}

// refuse answers a request of the agent with an error. An agent waits for the answer to each request.
func (d *acpDialogue) refuse(id json.RawMessage, code int, why string) {
	d.out = append(d.out, Send{acpLine(acpMessage{ID: id, Error: &acpError{Code: code, Message: why}})})
}

// onAnswer goes on after the answer to the open request.
func (d *acpDialogue) onAnswer(m acpMessage) {
	method := d.open
	if m.Error != nil {
		d.onError(method, m.Error)
		return
	}
	switch method {
	case acpInitialize:
		if json.Unmarshal(m.Result, &d.agent) != nil || d.agent.ProtocolVersion != acpVersion {
			d.fail(mailroom.ClassPermanent, "it speaks version %d of the protocol, and Mailroom version %d: use another "+
				"version of the agent", d.agent.ProtocolVersion, acpVersion)
			return
		}
		d.openSession()
	case acpNew, acpLoad, acpResume:
		if err := json.Unmarshal(m.Result, &d.settings); err != nil && !null(m.Result) {
			d.fail(mailroom.ClassTransient, "the answer to %s cannot be read: %v", method, err)
			return
		}
		if method == acpNew {
			d.session = d.settings.SessionID
		}
		d.out = append(d.out, Session{ID: d.session})
		d.setMode()
	case acpSetMode:
		d.setModel()
	case acpSetOption:
		d.afterOption()
	case acpPrompt:
		d.onPromptAnswer(m.Result)
	}
}

// onError ends the turn after the agent refused a request.
func (d *acpDialogue) onError(method string, e *acpError) {
	text, opens := e.text(), method == acpLoad || method == acpResume
	switch {
	case e.Code == acpAuthRequired:
		var names []string
		for _, m := range d.agent.AuthMethods {
			names = append(names, m.Name)
		}
		d.fail(mailroom.ClassPermanent, "not logged in: %s; sign in with the agent itself (%s)", text,
			strings.Join(names, ", "))
	case d.stopping:
		d.end(End{Aborted: true, Class: mailroom.ClassTransient, Message: "the turn was interrupted"})
	case method == acpPrompt:
		d.end(End{Status: codexStatus(text), Message: text})
	case opens && (e.Code == acpResourceNotFound || containsAny(text, acpGoneWords())):
		d.end(End{Message: acpSessionGone + ": " + text})
	case opens:
		d.end(End{Status: 400, Message: method + ": " + text}) // the session may be the cause
	case method == acpSetMode || method == acpSetOption:
		d.fail(mailroom.ClassPermanent, "refused %s: %s", method, text)
	default:
		d.end(End{Status: codexStatus(text), Message: method + ": " + text})
	}
}

// acpGoneWords returns texts of errors that say that the agent does not have a session.
//
//	codex-acp: no rollout found; opencode: Session not found, NotFoundError; claude-agent-acp has a code of its own;
//	gemini: Invalid session identifier, No previous sessions found.
func acpGoneWords() []string {
	return []string{"no rollout found", "not found", "notfound", "unknown session", "no such session",
		"no conversation found", "does not exist", "invalid session identifier", "no previous sessions found"}
}

// openSession requests the session of the turn. After an attempt whose end is unknown, the session is loaded, because
// only its replay says what the agent has done.
func (d *acpDialogue) openSession() {
	in := acpSessionRequest{Cwd: d.turn.Dir, MCPServers: []struct{}{}}
	canLoad, canResume := d.agent.AgentCapabilities.LoadSession, !null(d.agent.AgentCapabilities.Session.Resume)
	if d.turn.Resume {
		d.session, in.SessionID = d.turn.Session, d.turn.Session
	}
	switch {
	case !d.turn.Resume:
		d.request(acpNew, in)
	case canLoad && (d.prompt.Again != nil || !canResume):
		d.request(acpLoad, in)
	case canResume:
		d.request(acpResume, in)
	default:
		d.end(End{Message: acpSessionGone + ": it can neither load nor resume one"})
	}
}

// setMode sets the mode in which the agent asks the client. It is set in each process, because agents forget it.
func (d *acpDialogue) setMode() {
	if d.session == "" {
		d.fail(mailroom.ClassTransient, "the new session has no id")
		return
	}
	offered, option := d.offeredModes()
	for _, m := range d.modes {
		if !slices.Contains(offered, m) {
			continue
		}
		d.mode = m
		if option != "" {
			d.request(acpSetOption, acpSetOptionRequest{SessionID: d.session, ConfigID: option, Value: m})
		} else {
			d.request(acpSetMode, acpSetModeRequest{SessionID: d.session, ModeID: m})
		}
		return
	}
	if d.mustSet {
		d.fail(mailroom.ClassPermanent, "has no mode %q; set mode to one of %s", d.modes[0], strings.Join(offered, ", "))
		return
	}
	if len(offered) > 0 && !d.turn.Resume && d.turn.Mode == ModeAsk { // once for each session
		d.out = append(d.out, Warning{Text: "no mode of the agent is known to ask for permission: its own settings " +
			"decide what it may do; set mode to one of " + strings.Join(offered, ", ")})
	}
	d.setModel()
}

// offeredModes returns the modes of the session. option is the configuration option that sets them, "" if
// session/set_mode does.
func (d *acpDialogue) offeredModes() (modes []string, option string) {
	if d.settings.Modes != nil {
		for _, m := range d.settings.Modes.Available {
			modes = append(modes, m.ID)
		}
		return modes, ""
	}
	for _, o := range d.settings.Options {
		if o.Category == acpConfigMode {
			return o.values(), o.ID
		}
	}
	return nil, ""
}

// afterOption goes on after a configuration option was set: the mode, or the model.
func (d *acpDialogue) afterOption() {
	if d.turn.Model == "" {
		d.sendPrompt()
		return
	}
	d.setModel()
}

// setModel sets the model that the configuration or the message names.
func (d *acpDialogue) setModel() {
	model := d.turn.Model
	if model == "" {
		d.sendPrompt()
		return
	}
	d.turn.Model = ""
	for _, o := range d.settings.Options {
		if o.Category != acpConfigModel {
			continue
		}
		if values := o.values(); !slices.Contains(values, model) {
			d.fail(mailroom.ClassPermanent, "has no model %q; use one of %s", model,
				cut(strings.Join(values, ", "), maxShown/2))
			return
		}
		d.request(acpSetOption, acpSetOptionRequest{SessionID: d.session, ConfigID: o.ID, Value: model})
		return
	}
	d.fail(mailroom.ClassPermanent, "offers no choice of models; remove the model %q from the configuration, or from the "+
		"options of the message", model)
}

// sendPrompt sends the prompt. After an attempt whose end is unknown, the replay of the session decides its text.
//
// A message after the prompt before is not taken as the answer, because nothing in a replay says that a turn has ended:
// claude-agent-acp replays the beginning of a message that was cut off, and codex-acp a message before a tool call
// without the call.
func (d *acpDialogue) sendPrompt() {
	text := d.prompt.Text
	if again := d.prompt.Again; again != nil {
		text = again.Interrupted
		if d.agent.AgentCapabilities.LoadSession {
			text = map[acpFate]string{acpAbsent: again.Absent, acpInterrupted: again.Interrupted,
				acpAnswered: again.Answered}[d.replay.judge()]
		}
	}
	d.working = true
	d.request(acpPrompt, d.promptOf(text))
}

// promptOf returns the parameters of a prompt with this text.
func (d *acpDialogue) promptOf(text string) acpPromptRequest {
	return acpPromptRequest{SessionID: d.session,
		Prompt: []acpContent{{Type: "text", Text: acpMark(d.prompt.Mark) + "]\n\n" + text}}}
}

// onUpdate handles an update of the session. Those before the prompt are the replay.
func (d *acpDialogue) onUpdate(u acpChange) {
	if !d.working {
		d.replay.add(u)
		return
	}
	var block acpContent
	switch u.Kind {
	case "agent_message_chunk":
		if json.Unmarshal(u.Content, &block) != nil {
			return
		}
		d.out = append(d.out, d.calls.announce("")...)
		if u.MessageID != "" && u.MessageID != d.message {
			d.message = u.MessageID
			d.out = append(d.out, MessageStarted{ID: u.MessageID})
		}
		d.out = append(d.out, Text{block.text()})
	case "agent_thought_chunk":
		if json.Unmarshal(u.Content, &block) == nil {
			d.out = append(d.out, Thinking{block.text()})
		}
	case "tool_call", "tool_call_update":
		d.out = append(d.out, d.calls.update(u.acpToolCall, u.Content)...)
	case "usage_update":
		if u.Cost != nil && u.Cost.Currency == "USD" {
			d.out = append(d.out, Usage{Usage: mailroom.Usage{CostUSD: u.Cost.Amount}, TotalCost: true})
		}
	case "current_mode_update":
		if d.mode != "" && u.ModeID != d.mode {
			d.out = append(d.out, Warning{Text: fmt.Sprintf("the agent changed its mode from %s to %s", d.mode,
				cut(u.ModeID, 100))})
		}
	}
}

func (d *acpDialogue) onPromptAnswer(raw json.RawMessage) {
	var r acpPromptResponse
	_ = json.Unmarshal(raw, &r) // without a reason to stop it is unknown, see below
	if u := r.Usage; u != nil {
		d.out = append(d.out, Usage{Usage: mailroom.Usage{
			InputTokens: u.Input + u.CacheRead + u.CacheWrite, OutputTokens: u.Output, CacheReadTokens: u.CacheRead,
			CacheWriteTokens: u.CacheWrite, ReasoningTokens: u.Thought,
		}})
	} else if u := r.Meta.Quota.Tokens; u.Input+u.Output > 0 {
		d.out = append(d.out, Usage{Usage: mailroom.Usage{InputTokens: u.Input, OutputTokens: u.Output}})
	}
	switch {
	case d.stopping, r.StopReason == "cancelled": // some agents report a cancelled turn as one that ended
		d.end(End{Aborted: true, Class: mailroom.ClassTransient, Message: "the turn was interrupted"})
	case r.StopReason == "end_turn":
		d.onTurnEnd()
	case r.StopReason == "max_tokens" || r.StopReason == "max_turn_requests" || r.StopReason == "refusal":
		d.fail(mailroom.ClassPermanent, "the turn ended with %s", r.StopReason)
	default:
		d.fail(mailroom.ClassTransient, "the turn ended with the unknown reason %q", cut(r.StopReason, 100))
	}
}

// stop cancels the turn, if one works and was not cancelled.
func (d *acpDialogue) stop() string {
	if d.open != acpPrompt || d.stopping || d.steering.held {
		return ""
	}
	d.stopping = true
	return acpLine(acpMessage{Method: acpCancel, Params: acpJSON(acpCancelNotification{SessionID: d.session})})
}

// cut returns at most n bytes of text.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}
