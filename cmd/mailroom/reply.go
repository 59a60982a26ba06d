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
	main      *Main
	output    format
	last      mailroom.Status // of the run that ended last, "" if none did
	cursor    string          // behind the event that was printed last
	formatter entryFormatter
	pending   []string // lines of talk for when the message being written has ended

	// The message being written.
	message string // its id, "" between two messages
	attempt int
	printed int // bytes of its text on Stdout
	shown   display.Stream
}

func (m *Main) newReplyPrinter(output format) *replyPrinter {
	return &replyPrinter{main: m, output: output, formatter: entryFormatter{names: map[string]string{}}}
}

// printSubmitted prints the answer to a submit. asked is the thread that was named.
func (p *replyPrinter) printSubmitted(asked string, s mailroom.Submitted) error {
	if p.output == asJSON {
		return p.main.printJSON(s)
	}
	if strings.TrimSpace(asked) == "" {
		p.main.infof("thread %s", oneLine(s.Thread))
	}
	switch s.Disposition {
	case mailroom.DispositionSteered:
		p.main.infof("handed to run %s, which has already started", s.Run)
	case mailroom.DispositionResumed:
		p.main.infof("run %s goes on with it", s.Run)
	case mailroom.DispositionCollected:
		p.main.infof("joined run %s, which has not started yet", s.Run)
	case mailroom.DispositionDuplicate:
		p.main.infof("sent before as message %s", s.Message)
	}
	for _, run := range s.Superseded {
		p.main.infof("run %s superseded", run)
	}
	if s.Stopping != nil {
		p.main.infof("run %s was asked to stop", *s.Stopping)
	}
	return nil
}

// printEvent prints one event of the stream.
func (p *replyPrinter) printEvent(ev client.Event) error {
	if ev.ID != "" {
		p.cursor = ev.ID
	}
	switch {
	case ev.Gap != nil:
		p.main.infof("entries after %d are gone or were never written; going on with %d to %d", ev.Gap.After, ev.Gap.Oldest, ev.Gap.Last)
	case ev.Delta != nil && p.output == asText && ev.Delta.Channel == "text":
		return p.printDelta(ev.Delta)
	case ev.Entry != nil:
		if err := p.printEntry(*ev.Entry); err != nil || ev.Entry.Kind == mailroom.KindStep {
			return err
		}
		p.flushPending()
	}
	return nil
}

// printDelta prints what is new in d. Offsets are positions in the message, so text
// that comes again after a reconnection is not printed again.
func (p *replyPrinter) printDelta(d *mailroom.Delta) error {
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
	p.main.midLine = !strings.HasSuffix(text, "\n")
	if terminal(p.main.Stdout) {
		text = p.shown.Add(text)
	}
	_, err := io.WriteString(p.main.Stdout, text)
	return wrapPrintError(err)
}

// close ends the message being written and its line.
func (p *replyPrinter) close() error {
	p.message, p.attempt, p.printed = "", 0, 0
	if _, err := io.WriteString(p.main.Stdout, p.shown.End()); err != nil {
		return wrapPrintError(err)
	}
	if p.main.midLine {
		if err := p.write("\n"); err != nil {
			return err
		}
	}
	p.flushPending()
	return nil
}

// flushPending says what had to wait for the end of a line on Stdout.
func (p *replyPrinter) flushPending() {
	for _, line := range p.pending {
		p.main.infof("%s", line)
	}
	p.pending = nil
}

func (p *replyPrinter) printEntry(e mailroom.Entry) error {
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
		return p.printMessage(e)
	}
	line, err := p.formatter.format(e)
	if line == "" {
		return err
	}
	line = cut(oneLine(line), 300) // an error can bring a whole stack
	if e.Kind == mailroom.KindStep && p.main.midLine {
		p.pending = append(p.pending, line) // the message of the step comes after it
		return err
	}
	p.main.infof("%s", line)
	return err
}

// printMessage prints a message of the log: what the agent says, or what remains of it
// behind what was printed while it was written; other people's messages are talk.
// What an agent says on the way is internal, and printed as live text is.
func (p *replyPrinter) printMessage(e mailroom.Entry) error {
	var msg mailroom.Message
	if err := e.Decode(&msg); err != nil {
		return err
	}
	if msg.Role != mailroom.RoleAssistant {
		if msg.Visibility == mailroom.VisibleInternal {
			return nil
		}
		p.main.infof("%s", cut(oneLine(string(msg.Role)+": "+content(msg)), 200))
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
		p.main.infof("(the reply breaks off here)")
	}
	return nil
}
