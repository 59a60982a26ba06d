package exec

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"mailroom"
	"mailroom/agent/exec/program"
)

// KindSession is the entry of a Session that begins.
const KindSession = "x.exec.session"

// Session is the conversation as a program keeps it. Lost is the session that it
// takes the place of, and Why says why; both are "" for the first one. Messages
// of the thread were handed to it, the Left oldest of them not.
type Session struct {
	Program  string `json:"program"`
	Session  string `json:"session"`
	Lost     string `json:"lost,omitempty"`
	Why      string `json:"why,omitempty"`
	Messages int    `json:"messages,omitempty"`
	Omitted  int    `json:"left,omitempty"`
}

// state is what a thread keeps of a program's session. Totals count from the
// session's beginning, as the program tells them.
type state struct {
	Program string         `json:"program"`
	Session string         `json:"session"`
	Totals  mailroom.Usage `json:"totals"`
}

// readState returns the state of a session of that program, zero if there is
// none: what another program kept is of no use to this one.
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

// What of a transcript a new session is given, at most.
const (
	maxHistory      = 200
	maxHistoryBytes = 128 << 10
)

// history is what was said in a thread, for a session that was not there.
type history struct {
	text     string // lines of JSON, "" if nothing was said
	messages int
	omitted  int // of the oldest messages, which did not fit; at least
}

func readHistory(ctx context.Context, s mailroom.Session) (h history, err error) {
	messages, err := s.Transcript(ctx, maxHistory+1)
	if err != nil {
		return h, fmt.Errorf("read the transcript: %w", err)
	}
	return formatHistory(messages), nil
}

// formatHistory writes messages as lines of JSON, so that nobody's words can look like
// somebody else's, the oldest left out if they are too much.
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

// plan is how a turn is to be taken.
type plan struct {
	session string // "" if the program chooses
	resume  bool
	lost    string // session that it takes the place of
	why     string
	history history
}

// requestText is what the program is asked to do in the turn: the input of the run,
// with what it must know to take it up. given says that the session had it
// already, news what was decided meanwhile, steered what came in beside it.
func requestText(p plan, input string, given bool, news, steered []string) string {
	var parts []string
	if p.history.text != "" {
		head := "This conversation went on without you. What was said so far, one message a line:"
		if p.history.omitted > 0 {
			head = "This conversation went on without you. What was said last, one message a line (older ones are left out):"
		}
		parts = append(parts, head+"\n"+p.history.text+"\nNow this is asked of you:")
	}
	switch {
	case given && p.resume && len(news) > 0: // it knows what it was doing
	case given:
		parts = append(parts, "You were interrupted while you worked on this. See what is done already, then go on:", input)
	default:
		parts = append(parts, input)
	}
	parts = append(append(parts, steered...), news...)
	return strings.Join(parts, "\n\n")
}

// question is one that a person is asked, as an approval.
type question struct {
	Name      string          `json:"name"` // of the ticket
	Tool      string          `json:"tool"`
	Prompt    string          `json:"prompt"`
	Arguments json.RawMessage `json:"arguments"`
}

func (q question) ask() mailroom.Ask {
	return mailroom.Ask{Name: q.Name, Kind: mailroom.TicketApproval, Prompt: q.Prompt, Action: q.Tool, Arguments: q.Arguments}
}

// decision is what became of a question. Told says that the program knows.
type decision struct {
	Name      string `json:"name"`
	Tool      string `json:"tool"`
	Allowed   bool   `json:"allowed,omitempty"`
	Why       string `json:"why,omitempty"`
	Delivered bool   `json:"told,omitempty"`
}

// line is a decision in a line for the program.
func (d decision) line() string {
	if d.Allowed {
		return fmt.Sprintf("Your call of %s was allowed. Make it again, exactly as it was.", d.Tool)
	}
	return fmt.Sprintf("Your call of %s was denied: %s. Go on without it.", d.Tool, d.Why)
}

// decisionOf reads what became of a question from its ticket.
func decisionOf(q question, t mailroom.Ticket) decision {
	d := decision{Name: q.Name, Tool: q.Tool, Allowed: t.State == mailroom.TicketDecided && t.Decision == mailroom.VerdictApprove}
	switch {
	case d.Allowed:
	case t.State == mailroom.TicketExpired:
		d.Why = "nobody decided in time"
	case t.Reason != "":
		d.Why = strings.ToValidUTF8(t.Reason[:min(len(t.Reason), maxReason)], "")
	default:
		d.Why = "a person said no"
	}
	return d
}

const (
	maxReason  = 512 // bytes of it that a program is told
	maxTool    = 200 // bytes of a tool's name
	maxDecided = 64  // decisions that are remembered in a run
	maxSteered = 32 << 10
	maxAsked   = 2 // questions of one turn; others are asked in the next
)

// questionOf is a program's question as a person sees it. Its name is the same
// for the same tool and arguments, so that it is asked once in a run.
func questionOf(name string, q program.Question, f *program.Fold) question {
	const room = 16 << 10 // for the words around them
	tool := f.Sanitize(q.Tool)
	if len(tool) > maxTool {
		tool = strings.ToValidUTF8(tool[:maxTool], "")
	}
	shown := f.Arguments(q.Arguments, mailroom.MaxAnswer-room)
	prompt := fmt.Sprintf("%s asks to use %s", name, tool)
	if about := []rune(q.About); len(about) > 0 {
		prompt += ": " + string(about[:min(len(about), maxReason)])
	}
	return question{
		Name: "use." + mailroom.DeriveID(q.Tool, canonicalJSON(q.Arguments)), Tool: tool, Prompt: f.Sanitize(prompt), Arguments: shown,
	}
}

// canonicalJSON is JSON with its keys in order.
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
