package alert

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"mailroom"
	"mailroom/internal/digest"
	"mailroom/internal/display"
	"mailroom/internal/reserved"
)

// Message is an alert as a target sends it. Its texts are plain: a target escapes what its format gives a
// meaning. They have no characters that are invisible or change the direction of text.
type Message struct {
	// Key names the message: 32 hexadecimal digits, the same each time that it is sent.
	Key string
	// About names the question of the message, so that a reminder can replace what was sent before: 32 hexadecimal
	// digits; "" for a message that replaces none.
	About string
	// Repeated says that an earlier try may have arrived. A target that cannot recognize a repeat by its key
	// marks it.
	Repeated bool
	Kind     Kind
	Title    string // one line of at most MaxTitle characters
	Body     string // at most MaxBody characters; may be empty
	// URL is the page that shows more; "" if the server has no address that others can reach. It may contain
	// a link that decides.
	URL     string
	Buttons []Button
	// Decides describes the link for a target that signs it when it sends the message. If it is nil, URL has the
	// link.
	Decides *Link
	// Labels say why the message is sent. A target that sends it later checks with them whether it is still needed,
	// see [Sender].
	Labels map[string]string
	Urgent bool // a run waits for a decision
	At     time.Time
	// To is the metadata of the subscriber's thread, for a target that is a [Spreader].
	To json.RawMessage
}

// Button decides a ticket: it posts Body, which is JSON, to URL.
type Button struct {
	Label string
	URL   string
	Body  string
}

// Bounds of a message, in characters.
const (
	MaxTitle = 120
	MaxBody  = 2000
)

// Target sends messages to one place.
type Target interface {
	// Send sends a message and returns a receipt, which may be empty. The class of its error says what it
	// means, see [mailroom.Failure]; [mailroom.ErrUnknown] in the error's tree means that the message may
	// have been sent.
	Send(ctx context.Context, m Message) (receipt string, err error)
}

// TestMessage returns a message that tests a target.
func TestMessage(name string) Message {
	c := composer{target: name, body: MaxBody}
	m := c.compose(&Alert{Kind: KindTest, At: time.Now()}, subject{})
	m.Key = digest.ID("alert test", rand.Text())
	return m
}

// subject is what an alert is about, read from the store when it is sent.
type subject struct {
	ticket *mailroom.Ticket // nil: the alert is not about one ticket
	digest *Summary         // for KindDigest: the summary
	thread string           // thread from which the message is sent
	to     json.RawMessage  // see Message
	gone   string           // why its subscriber gets no alert; "": it gets one
}

// Spreader is a target with subscribers. Each subscriber has a thread of the target's agent, whose metadata says how
// to reach the subscriber. So a subscriber that is not reachable delays no other.
type Spreader interface {
	Target
	// Subscribers is the prefix of the ids of the subscribers' threads.
	Subscribers() string
}

// ErrGone is in the tree of a permanent error of a target if the subscriber does not exist any more. The subscriber
// then gets no further alerts.
var ErrGone = errors.New("the subscriber is gone")

// composer makes messages for one target.
type composer struct {
	target string
	place  string // see Options
	url    string // address of the server; "" if other machines cannot reach it
	links  *Links // nil: links in the alert cannot decide tickets
	life   time.Duration
	body   int // characters that the target shows at most
}

// compose returns the message of an alert without its key.
func (c *composer) compose(a *Alert, about subject) Message {
	m := Message{Kind: a.Kind, At: a.At}
	var title, body string
	switch a.Kind {
	case KindTicket:
		m.Urgent = true
		if about.ticket == nil {
			if title = fmt.Sprintf("%d questions%s wait for a decision", a.Count, ofOwner(a)); a.Count == 1 {
				title = "A question" + ofOwner(a) + " waits for a decision"
			}
			m.URL = c.page("inbox")
			break
		}
		title, body = c.question(a, about.ticket)
	case KindFailed:
		title, body = failure(a)
		m.URL = c.page("run/" + a.Run)
	case KindChannel:
		title = "Channel " + display.Line(a.Channel) + " is not connected"
		if a.Ended {
			title = "Channel " + display.Line(a.Channel) + " is connected again"
		}
		body = textOf(a, a.Words)
		m.URL = c.page("channels")
	case KindPaused:
		if title = "Agent " + display.Line(a.Agent) + " is paused"; a.Host != "" {
			title += " on " + display.Line(a.Host) + ", and goes on elsewhere"
		}
		body = textOf(a, a.Words)
		m.URL = c.page("agents")
	case KindBudget:
		title, body = "The budget of "+budgetOf(a)+" is low", textOf(a, a.Words)
		if m.URL = c.page("agents"); isOfRun(a) {
			m.URL = c.page("run/" + a.Run)
		}
	case KindSchedule:
		title, body, m.URL = paused(a, c.page)
	case KindOutage:
		if title = "Runs of agent " + display.Line(a.Agent) + " wait because of an outage"; a.Ended {
			title = "No run of agent " + display.Line(a.Agent) + " waits because of an outage any more"
		}
		body = textOf(a, a.Words)
		m.URL = c.page("agents")
	case KindDigest:
		title, body = about.digest.Title(), about.digest.Body(a)
		m.URL = c.page("report?since=" + about.digest.From.UTC().Format(time.RFC3339) +
			"&until=" + about.digest.Until.UTC().Format(time.RFC3339))
	case KindReply:
		title, body = reply(a)
		if m.URL = c.page(""); c.url != "" {
			m.URL = c.url + "/chat#" + url.PathEscape(a.Thread)
		}
	default:
		title, body = "Test of Mailroom", "Alerts for "+c.target+" arrive here."
	}
	if a.Reminder > 0 {
		title = "Reminder: " + title
	}
	m.Title = display.Cut(display.Line(title), MaxTitle)
	m.Body = display.Cut(display.Text(body), min(c.body, MaxBody))
	if about.ticket != nil {
		c.decide(&m, a, about.ticket, about.thread)
	}
	return m
}

// paused says which schedule paused itself, and the page that resumes it.
func paused(a *Alert, page func(string) string) (title, body, link string) {
	owner, name := reserved.SchedulePlace(a.Thread)
	title, body, link = "Schedule "+display.Line(name)+" is paused", textOf(a, a.Words),
		page("schedule/"+url.PathEscape(owner+":"+name))
	if a.Count > 1 {
		title = fmt.Sprintf("%d schedules%s are paused, the first one is %s", a.Count, ofOwner(a), display.Line(name))
		link = page("schedules?show=paused")
	}
	return title, body, link
}

// budgetOf says whose budget an alert is about.
func budgetOf(a *Alert) string {
	if isOfRun(a) {
		return "a run of agent " + display.Line(a.Agent)
	}
	if a.Agent != "" {
		return "agent " + display.Line(a.Agent)
	}
	return "token " + display.Line(a.Owner)
}

// isOfRun reports whether an alert is about the budget of a run. The others have threads of their own.
func isOfRun(a *Alert) bool { return reserved.Prefix(a.Thread) != reserved.Budget }

// page returns the address of a page of the console.
func (c *composer) page(path string) string {
	if c.url == "" {
		return ""
	}
	return c.url + "/#/" + path
}

// textOf returns the part of a text that the alert may contain.
func textOf(a *Alert, text string) string {
	switch a.Text {
	case TextFull:
		return text
	case TextTitle:
		return firstLine(text)
	}
	return ""
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return display.Cut(line, MaxTitle)
}

// question returns the words of a ticket.
func (c *composer) question(a *Alert, k *mailroom.Ticket) (title, body string) {
	verb := "asks for an approval"
	if k.Kind == mailroom.TicketInput {
		verb = "asks a question"
	}
	title = a.Agent + " " + verb
	lines := []string{}
	switch a.Text {
	case TextTitle:
		if asked := firstLine(k.Prompt + " " + k.Action); asked != "" {
			title = a.Agent + " asks: " + asked
		}
	case TextFull:
		lines = append(lines, asked(k)...)
	}
	if len(lines) > 0 {
		lines = append(lines, "") // the words of the agent end here
	}
	lines = append(lines, "In "+a.Thread+".")
	if k.ExpiresAt != nil {
		lines = append(lines, "Until "+inZone(*k.ExpiresAt, a.Zone)+"; later counts as denied.")
	}
	return title, strings.Join(lines, "\n")
}

// asked returns the parts of what a ticket asks, without empty ones.
func asked(k *mailroom.Ticket) []string {
	parts := []string{strings.TrimSpace(k.Prompt), strings.TrimSpace(k.Action), arguments(k)}
	return slices.DeleteFunc(parts, func(part string) bool { return part == "" })
}

// showsWhole reports whether a message shows all that a ticket asks. It checks the finished message, in which hidden
// characters are marks and texts are cut, because a check of the texts before these steps would miss what the steps
// remove.
func (m *Message) showsWhole(k *mailroom.Ticket) bool {
	parts := asked(k)
	for _, part := range parts {
		if !strings.Contains(m.Title, display.Line(part)) && !strings.Contains(m.Body, display.Text(part)) {
			return false
		}
	}
	return len(parts) > 0
}

// arguments returns the arguments of a ticket for reading.
func arguments(k *mailroom.Ticket) string {
	var b bytes.Buffer
	if err := json.Indent(&b, k.Arguments, "", "  "); err != nil {
		return "" // k has no arguments: the store keeps valid JSON only
	}
	if text := display.JSON(b.String()); text != "null" && text != "{}" {
		return text
	}
	return ""
}

// inZone formats a time for a person.
func inZone(t time.Time, zone string) string {
	place, err := time.LoadLocation(zone)
	if err != nil {
		place = time.UTC // the zone was checked when the rule was read; another machine may lack it
	}
	return t.In(place).Format("2 January 15:04 MST")
}

// decide adds the buttons and links that decide a ticket. A message that does not show all that is asked gets no
// button that approves. thread is the thread that sends the message.
func (c *composer) decide(m *Message, a *Alert, k *mailroom.Ticket, thread string) {
	if m.URL = c.page("inbox"); c.url == "" || c.links == nil {
		return
	}
	until := a.At.Add(c.life)
	if k.ExpiresAt != nil && k.ExpiresAt.Before(until) {
		until = *k.ExpiresAt
	}
	m.Decides = &Link{Ticket: k.ID, Digest: k.Digest, Thread: thread, Place: c.place, Expires: until}
	signed := c.links.Sign(*m.Decides)
	m.URL = c.url + decidePage + signed
	if k.Kind != mailroom.TicketApproval {
		return
	}
	for _, b := range []struct {
		label   string
		verdict mailroom.Verdict
	}{{"Approve", mailroom.VerdictApprove}, {"Deny", mailroom.VerdictDeny}} {
		if b.verdict == mailroom.VerdictApprove && !m.showsWhole(k) {
			continue
		}
		// Neither a link nor a verdict has a character that JSON escapes.
		m.Buttons = append(m.Buttons, Button{Label: b.label, URL: c.url + "/v1/question/decision",
			Body: fmt.Sprintf(`{"link":%q,"decision":%q}`, signed, b.verdict)})
	}
}

// ofOwner returns the words that name the owner of combined events, "" without one.
func ofOwner(a *Alert) string {
	if a.Owner == "" {
		return ""
	}
	return " of " + a.Owner
}

func failure(a *Alert) (title, body string) {
	title = a.Agent + " failed"
	switch {
	case a.Agent == "":
		title = fmt.Sprintf("%d runs%s failed with other errors", a.Count, ofOwner(a))
	case a.Count > 1:
		title = fmt.Sprintf("%d runs failed with one error", a.Count)
	}
	if a.Text != TextNone && a.Words != "" {
		title += ": " + firstLine(a.Words)
	}
	body = "In " + a.Thread + "."
	if a.Count > 1 {
		body = fmt.Sprintf("First in %s, at %s.", a.Thread, inZone(a.At, a.Zone))
	}
	if a.Text == TextFull {
		body = a.Words + "\n\n" + body
	}
	return title, body
}

func reply(a *Alert) (title, body string) {
	if a.Count > 1 {
		return fmt.Sprintf("%d further messages of %s", a.Count, a.Owner), "The first one was in " + a.Thread + "."
	}
	title = a.Agent + " answered"
	if a.Ended {
		title = a.Agent + " ended without an answer"
	}
	body = "In " + a.Thread + "."
	if text := textOf(a, a.Words); text != "" {
		body = text + "\n\n" + body
	}
	return title, body
}
