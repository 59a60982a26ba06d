package main

import (
	"io"
	"strings"

	"mailroom"
	"mailroom/client"
	"mailroom/internal/display"
)

// replyPrinter prints a stream: the text of replies as it is written, and the
// rest as talk; or, as JSON, each entry on a line. It belongs to the goroutine
// that follows the stream.
type replyPrinter struct {
	main   *Main
	output format
	last   mailroom.Status // of the run that ended last, "" if none did
	cursor string          // behind the event that was printed last
	talk   talk
	later  []string // lines of talk for when the message being written has ended

	// The message being written.
	message string // its id, "" between two messages
	attempt int
	printed int // bytes of its text on Stdout
	shown   display.Stream
}

func (m *Main) newReplyPrinter(output format) *replyPrinter {
	return &replyPrinter{main: m, output: output, talk: talk{names: map[string]string{}}}
}

// submitted prints the answer to a submit. asked is the thread that was named.
func (p *replyPrinter) submitted(asked string, s mailroom.Submitted) error {
	if p.output == asJSON {
		return p.main.printJSON(s)
	}
	if strings.TrimSpace(asked) == "" {
		p.main.say("thread %s", oneLine(s.Thread))
	}
	switch s.Disposition {
	case mailroom.DispositionSteered:
		p.main.say("handed to run %s, which has already started", s.Run)
	case mailroom.DispositionResumed:
		p.main.say("run %s goes on with it", s.Run)
	case mailroom.DispositionCollected:
		p.main.say("joined run %s, which has not started yet", s.Run)
	case mailroom.DispositionDuplicate:
		p.main.say("sent before as message %s", s.Message)
	}
	for _, run := range s.Superseded {
		p.main.say("run %s superseded", run)
	}
	if s.Stopping != nil {
		p.main.say("run %s was asked to stop", *s.Stopping)
	}
	return nil
}

// event prints one event of the stream.
func (p *replyPrinter) event(ev client.Event) error {
	if ev.ID != "" {
		p.cursor = ev.ID
	}
	switch {
	case ev.Gap != nil:
		p.main.say("entries after %d are gone or were never written; going on with %d to %d", ev.Gap.After, ev.Gap.Oldest, ev.Gap.Last)
	case ev.Delta != nil && p.output == asText && ev.Delta.Channel == "text":
		return p.delta(ev.Delta)
	case ev.Entry != nil:
		if err := p.entry(*ev.Entry); err != nil || ev.Entry.Kind == mailroom.KindStep {
			return err
		}
		p.sayLater()
	}
	return nil
}

// delta prints what is new in d. Offsets are positions in the message, so text
// that comes again after a reconnection is not printed again.
func (p *replyPrinter) delta(d *mailroom.Delta) error {
	if d.Offset < 0 || d.Offset > mailroom.MaxText {
		return nil // no place in a message, whose entry will tell
	}
	if d.Message != p.message || d.Attempt != p.attempt {
		if err := p.close(); err != nil {
			return err
		}
		p.message, p.attempt = d.Message, d.Attempt
	}
	skip := max(0, p.printed-d.Offset)
	if skip >= len(d.Text) {
		return nil
	}
	p.printed = max(p.printed, d.Offset) + len(d.Text) - skip
	return p.write(d.Text[skip:])
}

func (p *replyPrinter) write(text string) error {
	if text == "" {
		return nil
	}
	p.main.within = !strings.HasSuffix(text, "\n")
	if terminal(p.main.Stdout) {
		text = p.shown.Add(text)
	}
	_, err := io.WriteString(p.main.Stdout, text)
	return printed(err)
}

// close ends the message being written and its line.
func (p *replyPrinter) close() error {
	p.message, p.attempt, p.printed = "", 0, 0
	if _, err := io.WriteString(p.main.Stdout, p.shown.End()); err != nil {
		return printed(err)
	}
	if p.main.within {
		if err := p.write("\n"); err != nil {
			return err
		}
	}
	p.sayLater()
	return nil
}

// sayLater says what had to wait for the end of a line on Stdout.
func (p *replyPrinter) sayLater() {
	for _, line := range p.later {
		p.main.say("%s", line)
	}
	p.later = nil
}

func (p *replyPrinter) entry(e mailroom.Entry) error {
	switch e.Kind {
	case mailroom.KindCompleted:
		p.last = mailroom.StatusCompleted
	case mailroom.KindFailed:
		p.last = mailroom.StatusFailed
	case mailroom.KindCancelled:
		p.last = mailroom.StatusCancelled
	}
	if p.output == asJSON {
		return p.main.printJSON(e)
	}
	if e.Kind == mailroom.KindMessage {
		return p.said(e)
	}
	line, err := p.talk.line(e)
	if line == "" {
		return err
	}
	line = cut(oneLine(line), 300) // an error can bring a whole stack
	if e.Kind == mailroom.KindStep && p.main.within {
		p.later = append(p.later, line) // the message of the step comes after it
		return err
	}
	p.main.say("%s", line)
	return err
}

// said prints a message of the log: what the agent says, or what remains of it
// behind what was printed while it was written; other people's messages are talk.
// What an agent says on the way is internal, and printed as live text is.
func (p *replyPrinter) said(e mailroom.Entry) error {
	var msg mailroom.Message
	if err := e.Decode(&msg); err != nil {
		return err
	}
	if msg.Role != mailroom.RoleAssistant {
		if msg.Visibility == mailroom.VisibleInternal {
			return nil
		}
		p.main.say("%s", cut(oneLine(string(msg.Role)+": "+content(msg)), 200))
		return nil
	}
	text := content(msg)
	if msg.ID == p.message && e.Attempt == p.attempt {
		text = text[min(p.printed, len(text)):]
	} else if err := p.close(); err != nil {
		return err
	}
	if err := p.write(text); err != nil {
		return err
	}
	if err := p.close(); err != nil {
		return err
	}
	if msg.Partial {
		p.main.say("(the reply breaks off here)")
	}
	return nil
}
