package cli

import (
	"strings"

	"mailroom"
	"mailroom/api"
	"mailroom/app/command"
	"mailroom/client"
	"mailroom/entry"
	"mailroom/internal/display"
)

// replyPrinter prints an event stream. As text, replies go to Stdout as they are
// streamed and everything else to Stderr; as JSON, each entry is a line on Stdout. It
// belongs to the goroutine that follows the stream.
type replyPrinter struct {
	con       *command.Console
	output    command.Format
	last      mailroom.Status // status of the run that ended last, or ""
	waiting   bool            // the last printed change of a run says that it waits
	cursor    string          // cursor of the last printed event
	formatter entryFormatter
	pending   []string // lines to print after the current message

	// The message that is being streamed.
	message string // id of the message being printed; "" between messages
	attempt int
	printed int // bytes of its text on Stdout
	shown   display.Stream
}

func newReplyPrinter(con *command.Console, output command.Format) *replyPrinter {
	return &replyPrinter{con: con, output: output, formatter: entryFormatter{names: map[string]string{}}}
}

// printSubmitted prints the result of a submit. asked is the thread that the user named, "" if none.
func (p *replyPrinter) printSubmitted(asked string, s api.Submitted) error {
	if p.output == command.FormatJSON {
		return p.con.PrintJSON(s)
	}
	if strings.TrimSpace(asked) == "" {
		p.con.Infof("thread %s", display.Line(s.Thread))
	}
	switch s.Disposition {
	case api.DispositionSteered:
		p.con.Infof("steered run %s, which is already running", s.Run)
	case api.DispositionResumed:
		p.con.Infof("resumed run %s", s.Run)
	case api.DispositionCollected:
		p.con.Infof("added to queued run %s", s.Run)
	case api.DispositionDuplicate:
		p.con.Infof("duplicate of message %s", s.Message)
	}
	for _, run := range s.Superseded {
		p.con.Infof("superseded run %s", run)
	}
	if s.Stopping != nil {
		p.con.Infof("stopping run %s", *s.Stopping)
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
		p.con.Infof("entries after %d are missing; continuing with %d to %d", ev.Gap.After, ev.Gap.Oldest, ev.Gap.Last)
	case ev.Delta != nil && p.output == command.FormatText && ev.Delta.IsText():
		return p.printDelta(ev.Delta)
	case ev.Entry != nil:
		if err := p.printEntry(*ev.Entry); err != nil || ev.Entry.Kind == entry.KindStep {
			return err
		}
		p.flushPending()
	}
	return nil
}

// printDelta prints the new part of d. Offsets are positions in the message, so text that
// is repeated after a reconnect is printed once.
func (p *replyPrinter) printDelta(d *entry.Delta) error {
	if d.Offset < 0 || d.Offset > mailroom.MaxText {
		return nil // invalid offset; the message's entry has the text
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
	p.con.MidLine = !strings.HasSuffix(text, "\n")
	if command.IsTerminal(p.con.Stdout) {
		text = p.shown.Add(text)
	}
	return p.con.Printf("%s", text)
}

// close ends the current message and its line.
func (p *replyPrinter) close() error {
	p.message, p.attempt, p.printed = "", 0, 0
	if err := p.con.Printf("%s", p.shown.End()); err != nil {
		return err
	}
	if p.con.MidLine {
		if err := p.write("\n"); err != nil {
			return err
		}
	}
	p.flushPending()
	return nil
}

// flushPending prints the lines for Stderr that were held back until the line on Stdout was complete, so that a
// terminal does not mix the two.
func (p *replyPrinter) flushPending() {
	for _, line := range p.pending {
		p.con.Infof("%s", line)
	}
	p.pending = nil
}

func (p *replyPrinter) printEntry(e mailroom.Entry) error {
	switch e.Kind {
	case entry.KindWaiting:
		p.waiting = true
	case entry.KindResumed, entry.KindCompleted, entry.KindFailed, entry.KindCancelled:
		p.waiting = false
	}
	switch e.Kind {
	case entry.KindCompleted:
		p.last = mailroom.StatusCompleted
	case entry.KindFailed:
		p.last = mailroom.StatusFailed
	case entry.KindCancelled:
		p.last = mailroom.StatusCancelled
	}
	if p.output == command.FormatJSON {
		return p.con.PrintJSON(e)
	}
	if e.Kind == entry.KindMessage {
		return p.printMessage(e)
	}
	line, err := p.formatter.format(e)
	if line == "" {
		return err
	}
	line = command.Shorten(display.Line(line), 300) // an error can bring a whole stack
	if e.Kind == entry.KindStep && p.con.MidLine {
		p.pending = append(p.pending, line) // the message of the step comes after it
		return err
	}
	breakLine(p.con)
	p.con.Infof("%s", line)
	return err
}

// printMessage prints a message entry. Of an agent's message it prints the part that was not streamed yet, even if
// the message is internal. Other messages go to Stderr, unless they are internal.
func (p *replyPrinter) printMessage(e mailroom.Entry) error {
	var msg mailroom.Message
	if err := e.Decode(&msg); err != nil {
		return err
	}
	if msg.Role != mailroom.RoleAssistant {
		if msg.Visibility == mailroom.VisibleInternal {
			return nil
		}
		p.con.Infof("%s", command.Shorten(display.Line(string(msg.Role)+": "+content(msg)), 200))
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
		p.con.Infof("(reply incomplete)")
	}
	return nil
}
