package builtin

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"mailroom"
	"mailroom/entry"
)

// streamText streams text, word by word at the configured pace.
func (t *attempt) streamText(ctx context.Context, text string) error {
	t.streamed = true
	if t.pace <= 0 {
		return t.session.Stream(ctx, text)
	}
	for word := range strings.SplitAfterSeq(text, " ") {
		if err := t.pause(ctx, 1); err != nil {
			return err
		}
		if err := t.session.Stream(ctx, word); err != nil {
			return err
		}
	}
	return nil
}

// pause waits as long as the configured pace needs for n words.
func (t *attempt) pause(ctx context.Context, n int) error {
	if t.pace > 0 {
		timer := time.NewTimer(time.Duration(n) * t.pace)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// tool is one call of a simulated tool.
type tool struct {
	id         string // the same in every attempt, like the id of a model's call
	name       string
	arguments  json.RawMessage
	idempotent bool
}

// callTool appends the entry for the start of a call, once, and executes the call as an effect. The step that ends
// the scene contains the result.
func (t *attempt) callTool(
	ctx context.Context, c tool, f func(context.Context, string) (json.RawMessage, error),
) (json.RawMessage, error) {
	if t.progress.Calling != c.id {
		t.progress.Calling = c.id
		started := newEntry(entry.KindToolStarted, map[string]any{"call": c.id, "name": c.name, "arguments": c.arguments})
		if err := t.save(ctx, mailroom.Step{Entries: []mailroom.AgentEntry{started}}, t.progress); err != nil {
			return nil, err
		}
	}
	return t.session.Do(ctx, mailroom.Effect{Name: c.id, Input: c.arguments, Idempotent: c.idempotent}, f)
}

func toolFinished(c tool, ok bool, summary string) mailroom.AgentEntry {
	return newEntry(entry.KindToolDone, map[string]any{"call": c.id, "ok": ok, "summary": summary})
}

func newEntry(kind string, body map[string]any) mailroom.AgentEntry {
	b, err := json.Marshal(body)
	if err != nil {
		panic(err) // strings and JSON always encode
	}
	return mailroom.AgentEntry{Kind: kind, Body: b}
}
