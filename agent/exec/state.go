package exec

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"mailroom"
	"mailroom/agent/exec/program"
	"mailroom/internal/digest"
)

// KindSession is the kind of the entry for a new Session.
const KindSession = "x.exec.session"

// Session is a conversation that the program stores. Lost is the session that it replaces, and Why
// is the reason; both are "" for the first session of a thread. Messages is the number of messages
// from the thread that it received, and Omitted the number of older ones that it did not.
type Session struct {
	Program  string `json:"program"`
	Session  string `json:"session"`
	Lost     string `json:"lost,omitempty"`
	Why      string `json:"why,omitempty"`
	Messages int    `json:"messages,omitempty"`
	Omitted  int    `json:"left,omitempty"`
}

// state is the thread state of an agent that runs a program: its session. Totals are the program's counts since the
// start of the session.
type state struct {
	Program string         `json:"program"`
	Session string         `json:"session"`
	Totals  mailroom.Usage `json:"totals"`
	// Doubts is the number of consecutive turns that did nothing and whose failure may be caused by the session.
	Doubts int `json:"doubts,omitempty"`
}

// readState returns the state of a session of this program. The state of another program is
// ignored.
func readState(raw json.RawMessage, program string) (st state, err error) {
	if len(raw) == 0 {
		return st, nil
	}
	if err := json.Unmarshal(raw, &st); err != nil {
		return st, fmt.Errorf("read the state of the thread: %w", err)
	}
	if st.Program != program {
		return state{}, nil
	}
	return st, nil
}

// Limits of the transcript that a new session receives.
const (
	maxHistory      = 200
	maxHistoryBytes = 128 << 10
)

// history is a transcript for a new session, which has not seen the conversation.
type history struct {
	text     string // lines of JSON, "" if there are no messages
	messages int
	omitted  int // at least this number of the oldest messages did not fit
}

func readHistory(ctx context.Context, s mailroom.Session, files *localFiles) (h history, err error) {
	messages, err := s.Transcript(ctx, maxHistory+1)
	if err != nil {
		return h, fmt.Errorf("read the transcript: %w", err)
	}
	if messages, err = files.messages(ctx, messages); err != nil {
		return h, err
	}
	return formatHistory(messages), nil
}

// formatHistory encodes messages as lines of JSON, so that the text of one message cannot imitate another. If they
// exceed the limits, the oldest messages are omitted.
func formatHistory(messages []mailroom.Message) (h history) {
	var lines []string
	for size := 0; len(lines) < min(len(messages), maxHistory); {
		m := messages[len(messages)-1-len(lines)]
		text := messageText(m)
		if len(text) > maxHistoryBytes/4 {
			text = strings.ToValidUTF8(text[:maxHistoryBytes/4], "") + " …"
		}
		b, err := json.Marshal(map[string]any{"role": m.Role, "text": text})
		if err != nil || size+len(b) > maxHistoryBytes {
			break
		}
		size += len(b) + 1
		lines = append(lines, string(b))
	}
	h.messages, h.omitted = len(lines), len(messages)-len(lines)
	for i := len(lines) - 1; i >= 0; i-- {
		h.text += lines[i] + "\n"
	}
	return h
}

// plan says how a turn starts: with which session and transcript.
type plan struct {
	session string // id of the session; "" if the program chooses it
	resume  bool
	lost    string // session that it replaces
	why     string
	history history
}

// perhapsDone begins a prompt that a session may have got before, although it does not show it.
const perhapsDone = "If you already worked on the following request, check what is done, and do only the rest."

// perhapsAnswered begins a prompt after which the session has a message that may be the whole answer.
const perhapsAnswered = "Your last message may have been cut off, and did not arrive. If it was your complete answer " +
	"to the following request, write it once more and do nothing else. Otherwise check what is done, and continue."

// perhapsRead begins a message that was sent to a turn which was cancelled for a question.
const perhapsRead = "You may have read this message already:"

// continued begins the transcript for a session that has not seen it.
const continued = "This conversation continued without you."

// requestText returns the prompt of a turn: the input of the run and the context that the program needs. given is set
// if the session already has the input. news are the decisions since then, and steered are messages that arrived in
// addition to the input.
func requestText(p plan, input string, given bool, news, steered []string) string {
	var parts []string
	if p.history.text != "" {
		head := continued + " The messages so far, one per line:"
		if p.history.omitted > 0 {
			head = continued + " The latest messages, one per line (older ones are omitted):"
		}
		parts = append(parts, head+"\n"+p.history.text+"\nThe current request:")
	}
	switch {
	case given && p.resume && len(news) > 0: // the session knows its task
	case given:
		parts = append(parts, "You were interrupted while working on this. Check what is already done, then continue:", input)
	default:
		parts = append(parts, input)
	}
	parts = append(append(parts, steered...), news...)
	return strings.Join(parts, "\n\n")
}

// question is a program's question, which becomes an approval ticket.
type question struct {
	Name      string          `json:"name"` // name of the ticket
	Tool      string          `json:"tool"`
	Prompt    string          `json:"prompt"`
	Arguments json.RawMessage `json:"arguments"`
	// Choices are the ways in which the call can be permitted, if there is more than one.
	Choices []string `json:"choices,omitempty"`
}

func (q question) ticketAsk() mailroom.Ask {
	return mailroom.Ask{Name: q.Name, Kind: mailroom.TicketApproval, Prompt: q.Prompt, Action: q.Tool,
		Arguments: q.Arguments, Answers: len(q.Choices) > 0}
}

// decision is the answer to a question. Delivered is set if the program has got the answer.
type decision struct {
	Name      string `json:"name"`
	Tool      string `json:"tool"`
	Call      string `json:"call,omitempty"` // input of the call, for a program that may forget it
	Allowed   bool   `json:"allowed,omitempty"`
	Choice    string `json:"choice,omitempty"` // one of question.Choices
	Why       string `json:"why,omitempty"`
	Delivered bool   `json:"told,omitempty"`
}

// line returns the decision as text for the program.
func (d decision) line() string {
	call := d.Tool
	if d.Call != "" {
		call += " with " + d.Call
	}
	if d.Allowed {
		return fmt.Sprintf("Your call of %s was allowed. Repeat it with exactly the same arguments.", call)
	}
	return fmt.Sprintf("Your call of %s was denied: %s. Continue without it.", call, d.Why)
}

// decisionOf reads the decision on a question from its ticket.
func decisionOf(q question, t mailroom.Ticket) decision {
	approved := t.State == mailroom.TicketDecided && t.Decision == mailroom.VerdictApprove
	d := decision{Name: q.Name, Tool: q.Tool, Allowed: approved && len(q.Choices) == 0}
	if t.State == mailroom.TicketDecided && t.Decision == mailroom.VerdictAnswer &&
		json.Unmarshal(t.Answer, &d.Choice) == nil {
		d.Allowed = slices.Contains(q.Choices, d.Choice)
	}
	switch {
	case d.Allowed:
	case len(q.Choices) > 0 && (approved || t.Decision == mailroom.VerdictAnswer):
		d.Why = "no person chose one of the ways in which it can be allowed"
	case t.State == mailroom.TicketExpired:
		d.Why = "the approval expired"
	case t.Reason != "":
		d.Why = strings.ToValidUTF8(t.Reason[:min(len(t.Reason), maxReason)], "")
	default:
		d.Why = "a person denied it"
	}
	return d
}

const (
	maxReason  = 512     // bytes of a reason that the program gets
	maxTool    = 200     // bytes of a tool's name
	maxCall    = 2 << 10 // bytes of the input of a call that a decision repeats
	maxDecided = 64      // decisions that are kept per run
	maxSteered = 32 << 10
	maxAsked   = 2 // questions per turn; further ones are asked in the next turn
)

// questionOf returns a program's question as a person sees it. The name of its ticket is derived from the tool and
// its arguments, so that a run asks only once about the same call.
func questionOf(name string, q program.Question, f *program.Fold) question {
	const reserve = 16 << 10 // bytes for the other parts of the prompt
	tool := f.Sanitize(q.Tool)
	if len(tool) > maxTool {
		tool = strings.ToValidUTF8(tool[:maxTool], "")
	}
	shown := f.Arguments(q.Arguments, mailroom.MaxAnswer-reserve)
	prompt := fmt.Sprintf("%s asks to use %s", name, tool)
	if about := []rune(q.About); len(about) > 0 {
		prompt += ": " + string(about[:min(len(about), maxReason)])
	}
	var choices []string
	for _, c := range q.Choices {
		choices = append(choices, f.Sanitize(c))
	}
	if len(choices) > 0 {
		prompt += ". It can be allowed in several ways: answer with one of these words as a JSON string, or deny: " +
			strings.Join(choices, " | ")
	}
	return question{
		Name: "use." + digest.ID(append([]string{q.Tool, canonicalJSON(q.Arguments)}, q.Choices...)...), Tool: tool,
		Prompt: f.Sanitize(prompt), Arguments: shown, Choices: choices,
	}
}

// canonicalJSON returns JSON with sorted keys.
func canonicalJSON(raw json.RawMessage) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return string(raw)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return string(raw)
	}
	return string(b)
}
