// Package echo is the agent that says back what it was told. It needs nothing,
// so it is what a fresh installation answers with, and what the parts around
// agents are tried out on.
package echo

import (
	"context"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"mailroom"
)

// DefaultPace is a pace at which a person can watch the words arrive.
const DefaultPace = 30 * time.Millisecond

// Options of the agent.
type Options struct {
	// Pace is the time between two words. 0 says everything at once.
	Pace time.Duration
}

// New makes the agent. It streams the text of its input, several messages
// joined by newlines, word by word with the white space as it was. Between words
// and at the end it looks for steered messages; they are said on a new line
// after what it was saying, so nothing that was begun is left unfinished. It
// appends no steps: a later attempt starts over. When its context is cancelled
// it stops within one word and returns the cause.
func New(o Options) mailroom.Agent { return agent{pace: o.Pace} }

type agent struct{ pace time.Duration }

func (a agent) Run(ctx context.Context, s mailroom.Session) error {
	err := a.echo(ctx, s)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx) // says more than what it made a call fail with
	}
	return err
}

func (a agent) echo(ctx context.Context, s mailroom.Session) error {
	input, err := s.Input(ctx)
	if err != nil {
		return err
	}
	e := &reply{pace: a.pace, session: s, rest: joinText(input)}
	for {
		if err := e.addSteered(ctx); err != nil {
			return err
		}
		if e.rest == "" {
			return nil
		}
		if err := e.streamNext(ctx); err != nil {
			return err
		}
	}
}

// reply is what is left to be said in one attempt.
type reply struct {
	pace    time.Duration
	session mailroom.Session
	rest    string
	started bool // something was said
}

// streamNext streams the next word, or everything at pace 0. It pauses before each
// word but the first.
func (e *reply) streamNext(ctx context.Context) error {
	if e.started && e.pace > 0 {
		pause := time.NewTimer(e.pace)
		defer pause.Stop()
		select {
		case <-ctx.Done():
		case <-pause.C:
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	n := len(e.rest)
	if e.pace > 0 {
		n = firstWord(e.rest)
	}
	if err := e.session.Stream(ctx, e.rest[:n]); err != nil {
		return err
	}
	e.rest, e.started = e.rest[n:], true
	return nil
}

func (e *reply) addSteered(ctx context.Context) error {
	steered, err := e.session.Steered(ctx)
	if err != nil || len(steered) == 0 {
		return err
	}
	if e.started || e.rest != "" {
		e.rest += "\n"
	}
	e.rest += joinText(steered)
	return nil
}

// firstWord returns the length of the first word of s with the white space before
// it, and with what follows if that is all there is: a stream does not end in a
// piece that shows nothing.
func firstWord(s string) int {
	start := strings.IndexFunc(s, func(r rune) bool { return !unicode.IsSpace(r) })
	if start < 0 {
		return len(s)
	}
	_, size := utf8.DecodeRuneInString(s[start:])
	length := strings.IndexFunc(s[start+size:], unicode.IsSpace)
	if length < 0 {
		return len(s)
	}
	end := start + size + length
	if strings.TrimSpace(s[end:]) == "" {
		return len(s)
	}
	return end
}

func joinText(messages []mailroom.Message) string {
	texts := make([]string, len(messages))
	for i, m := range messages {
		texts[i] = m.Text
	}
	return strings.Join(texts, "\n")
}
