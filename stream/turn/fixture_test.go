package turn_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/stream/turn"
)

// start is when the entries of the tests were written.
func start() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

// history is the log of a thread, with the live text that its readers got between the entries.
type history struct {
	seq   int64
	items []item
}

// item is an entry or a delta.
type item struct {
	entry *mailroom.Entry
	delta *entry.Delta
}

// log appends an entry of attempt 1 of run r.
func (h *history) log(kind string, body any) *history { return h.of("r", 1, kind, body) }

// of appends an entry.
func (h *history) of(run string, attempt int, kind string, body any) *history {
	h.seq++
	switch raw := body.(type) {
	case string:
		body = json.RawMessage(raw)
	case nil:
		body = json.RawMessage(`{}`)
	}
	e, err := entry.New("t", h.seq, kind, run, attempt, start(), body)
	if err != nil {
		panic(err) // the test's own body
	}
	h.items = append(h.items, item{entry: &e})
	return h
}

// say appends a message of the agent.
func (h *history) say(m mailroom.Message) *history {
	m.Role = mailroom.RoleAssistant
	if m.Parts == nil {
		m.Parts = mailroom.Text(m.Text)
	}
	return h.log(entry.KindMessage, m)
}

// tool appends the start of call c.
func (h *history) tool() *history { return h.log(entry.KindToolStarted, `{"call":"c","name":"ls"}`) }

// ask appends the question k.
func (h *history) ask() *history {
	return h.log(entry.KindTicketOpened, mailroom.Ticket{ID: "k", Kind: mailroom.TicketInput, Name: "q"})
}

// child appends a message to thread t2 whose answer the run waits for.
func (h *history) child() *history {
	return h.log(entry.KindTicketOpened, mailroom.Ticket{
		ID: "k", Kind: mailroom.TicketChildren, Arguments: raw(map[string]string{"thread": "t2"}),
	}).log(entry.KindSend, entry.Sent{Thread: "t2", Run: "r2", Answer: true})
}

func (h *history) childEnded(by, status string) *history {
	return h.log(entry.KindTicketDecided, entry.TicketDecision{
		Ticket: "k", DecidedBy: by, Answer: raw(map[string]string{"run": "r2", "status": status, "reply": "42"}),
	})
}

// write appends live text of attempt 1 of run r.
func (h *history) write(message string, offset int, text string) *history {
	return h.live(entry.Delta{Message: message, Offset: offset, Channel: entry.ChannelText, Text: text})
}

func (h *history) live(d entry.Delta) *history {
	if d.Run == "" {
		d.Run, d.Attempt = "r", 1
	}
	h.items = append(h.items, item{delta: &d})
	return h
}

func apply(s *turn.State, items []item) (events []turn.Event) {
	for _, i := range items {
		if i.entry != nil {
			events = append(events, s.Apply(*i.entry)...)
		} else {
			events = append(events, s.ApplyDelta(*i.delta)...)
		}
	}
	return events
}

// entries returns the items without live text.
func (h *history) entries() (list []item) {
	for _, i := range h.items {
		if i.entry != nil {
			list = append(list, i)
		}
	}
	return list
}

// lines shows a turn and its parts, one a line.
func lines(s *turn.State, run string) (list []string) {
	t := s.Turn(run)
	if t == nil {
		return nil
	}
	list = append(list, strings.TrimSpace(fmt.Sprintf("%s %s %d", t.Run, t.Status, t.Attempt)))
	for _, p := range append(append([]*turn.Part{}, t.Parts...), s.Live(run)...) {
		list = append(list, line(p))
	}
	return list
}

func line(p *turn.Part) string {
	list := list{string(p.Kind), string(p.Progress)}
	add := list.add
	add("%s", p.Name, p.Name != "")
	add("%q", p.Text, p.Text != "")
	add("from %d", p.From, p.From > 0)
	add("%s", string(p.Data), p.Data != nil)
	add("%s", p.URI, p.URI != "")
	add("%s", toolWords(p.Tool), p.Tool != nil)
	add("%s", questionWords(p.Question), p.Question != nil)
	add("%s", childWords(p.Child), p.Child != nil)
	add("%s", failureWords(p.Failure), p.Failure != nil)
	add("usage %v", p.Usage.InputTokens, p.Usage.InputTokens > 0)
	for _, flag := range []struct {
		name string
		set  bool
	}{{"internal", p.Internal}, {"partial", p.Partial}, {"superseded", p.Superseded}, {"cut", p.Cut}} {
		add("%s", flag.name, flag.set)
	}
	return list.String()
}

// list is the words of a line.
type list []string

func (l *list) add(format string, v any, shown bool) {
	if s, ok := v.(string); shown && !(ok && s == "") {
		*l = append(*l, fmt.Sprintf(format, v))
	}
}

func (l list) String() string { return strings.Join(l, " ") }

func toolWords(c *turn.Tool) string {
	var l list
	if c != nil {
		l.add("in %s", string(c.Input), c.Input != nil)
		l.add("%q", c.Summary, true)
		l.add("out %s", string(c.Output), c.Output != nil)
	}
	return l.String()
}

func questionWords(q *turn.Question) string {
	var l list
	if q != nil {
		l.add("%s", string(q.Kind), true)
		l.add("%s", string(q.Arguments), true)
		l.add("digest %s", q.Digest, true)
		l.add("%s", string(q.Decision), true)
		l.add("by %s", q.DecidedBy, true)
		l.add("%s", string(q.Answer), true)
	}
	return l.String()
}

func childWords(c *turn.Child) string {
	var l list
	if c != nil {
		l.add("in %s", c.Thread, true)
		l.add("%s", string(c.Status), true)
		if c.Reply != nil {
			l.add("%q", *c.Reply, true)
		}
	}
	return l.String()
}

func failureWords(f *turn.Failure) string {
	var l list
	if f != nil {
		l.add("%s", string(f.Class), true)
		l.add("%q", f.Message, true)
		l.add("%s", f.Reason, true)
		l.add("again %t", f.Again, true)
	}
	return l.String()
}

// shown shows the events, one a line.
func shown(events []turn.Event) (list []string) {
	for _, e := range events {
		at := "-"
		if e.Cursor {
			seq, bytes := e.Number>>21, e.Number&(1<<21-1)
			at = fmt.Sprintf("%d:%d", seq, bytes)
		}
		what := string(e.Status)
		if e.Part.Key != "" {
			what = e.Part.Key
		}
		if e.Type == turn.PartGrew {
			what += fmt.Sprintf(" %d %q", e.Offset, e.Text)
		}
		list = append(list, fmt.Sprintf("%s %s %s", at, e.Type, what))
	}
	return list
}

// queuedAndStarted begins the history of a run r.
func queuedAndStarted() *history {
	h := &history{}
	h.of("r", 0, entry.KindMessage, mailroom.Message{ID: "in", Role: mailroom.RoleUser, Parts: mailroom.Text("hi")})
	h.of("r", 0, entry.KindQueued, entry.RunQueued{Agent: "a", Messages: []string{"in"}})
	return h.log(entry.KindStarted, entry.RunStarted{Worker: "w"})
}

func fold(h *history) *turn.State {
	s := &turn.State{}
	apply(s, h.items)
	return s
}
