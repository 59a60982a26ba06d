package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"mailroom"
	"mailroom/client"
)

// replyPrinter prints a stream: the text of replies as it is written, and the
// rest as talk; or, as JSON, each entry on a line. It belongs to the goroutine
// that follows the stream.
type replyPrinter struct {
	main   *Main
	output format
	last   mailroom.Status // of the run that ended last, "" if none did

	// The message being written.
	message string // its id, "" between two messages
	attempt int
	printed int  // bytes of its text on Stdout
	open    bool // Stdout is within a line
}

func (m *Main) newReplyPrinter(output format) *replyPrinter {
	return &replyPrinter{main: m, output: output}
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
	case mailroom.WasSteered:
		p.main.say("handed to run %s, which has already started", s.Run)
	case mailroom.WasCollected:
		p.main.say("joined run %s, which has not started yet", s.Run)
	case mailroom.WasDuplicate:
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
	switch {
	case ev.Gap != nil:
		p.main.say("entries after %d are gone or were never written; going on with %d to %d", ev.Gap.After, ev.Gap.Oldest, ev.Gap.Last)
	case ev.Delta != nil && p.output == asText && ev.Delta.Channel == "text":
		return p.delta(ev.Delta)
	case ev.Entry != nil:
		return p.entry(*ev.Entry)
	}
	return nil
}

// delta prints what is new in d. Offsets are positions in the message, so text
// that comes again after a reconnection is not printed again.
func (p *replyPrinter) delta(d *mailroom.Delta) error {
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
	p.open = !strings.HasSuffix(text, "\n")
	_, err := io.WriteString(p.main.Stdout, p.main.shown(text))
	return printed(err)
}

// close ends the message being written and its line.
func (p *replyPrinter) close() error {
	p.message, p.attempt, p.printed = "", 0, 0
	if !p.open {
		return nil
	}
	return p.write("\n")
}

func (p *replyPrinter) entry(e mailroom.Entry) error {
	switch e.Kind {
	case mailroom.KindCompleted:
		p.last = mailroom.Completed
	case mailroom.KindFailed:
		p.last = mailroom.Failed
	case mailroom.KindCancelled:
		p.last = mailroom.Cancelled
	}
	if p.output == asJSON {
		return p.main.printJSON(e)
	}
	if e.Kind == mailroom.KindMessage {
		return p.said(e)
	}
	line, err := talk(e)
	if line != "" {
		p.main.say("%s", cut(oneLine(line), 300)) // an error can bring a whole stack
	}
	return err
}

// said prints a message of the log: a reply, or what remains of one that was
// printed while it was written; other people's messages are talk.
func (p *replyPrinter) said(e mailroom.Entry) error {
	var msg mailroom.Message
	if err := e.Decode(&msg); err != nil {
		return err
	}
	if msg.Visibility == mailroom.VisibleInternal {
		return nil
	}
	if msg.Role != mailroom.Assistant {
		p.main.say("%s: %s", msg.Role, cut(oneLine(content(msg)), 200))
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

// talk says what an entry means for who waits for a reply, "" for nothing.
func talk(e mailroom.Entry) (string, error) {
	switch e.Kind {
	case mailroom.KindRescheduled:
		var b mailroom.RunRescheduled
		err := e.Decode(&b)
		return rescheduled(e, b), err
	case mailroom.KindStop:
		var b mailroom.RunStop
		err := e.Decode(&b)
		return fmt.Sprintf("run %s was asked to stop", e.Run), err
	case mailroom.KindFailed:
		var b mailroom.RunFailed
		err := e.Decode(&b)
		return fmt.Sprintf("run %s failed: %s: %s", e.Run, b.Error.Class, b.Error.Message), err
	case mailroom.KindCancelled:
		var b mailroom.RunStop
		err := e.Decode(&b)
		return fmt.Sprintf("run %s %s", e.Run, ended(b.Reason)), err
	case mailroom.KindToolStarted:
		var b struct{ Name string }
		err := e.Decode(&b)
		return "tool " + b.Name, err
	}
	return "", nil
}

func ended(reason mailroom.Reason) string {
	if reason == mailroom.ByCancel {
		return "cancelled"
	}
	return "cancelled: " + string(reason)
}

func rescheduled(e mailroom.Entry, b mailroom.RunRescheduled) string {
	line := fmt.Sprintf("run %s: attempt %d ", e.Run, b.Attempt)
	switch b.Reason {
	case "lease_lost":
		line += "was lost with its worker"
	case "released":
		line += "was given back by its worker"
	default:
		line += "failed"
	}
	if b.Error != nil {
		line += fmt.Sprintf(": %s: %s", b.Error.Class, b.Error.Message)
	}
	if wait := b.AvailableAt.Sub(e.At); wait > 0 {
		line += fmt.Sprintf("; next attempt in %s", wait.Round(10*time.Millisecond))
	}
	return line
}
