package builtin

import (
	"context"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"mailroom"
)

// NewEcho returns an agent that repeats its input. pace is the pause between two words; 0 streams everything at once.
// The agent streams the text of its input word by word, with white space preserved and several messages joined by
// newlines. Between words and at the end it reads steered messages and appends them on a new line. It appends no
// steps, so a later attempt begins again with the first word. When its context is cancelled, it stops within one word
// and returns the cause.
func NewEcho(pace time.Duration) mailroom.Agent { return echoAgent{pace: pace} }

type echoAgent struct{ pace time.Duration }

func (a echoAgent) Run(ctx context.Context, s mailroom.Session) error {
	err := a.echo(ctx, s)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx) // the cause says more than the error of the call
	}
	return err
}

func (a echoAgent) echo(ctx context.Context, s mailroom.Session) error {
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

// reply is the text that an attempt has not streamed yet.
type reply struct {
	pace    time.Duration
	session mailroom.Session
	rest    string
	started bool // the first word was streamed
}

// streamNext streams the next word, or everything at pace 0. It pauses before every word but the
// first.
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

// firstWord returns the length of the first word of s including leading white space. Trailing white
// space is included too if nothing follows it, so that a stream does not end in an invisible chunk.
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
