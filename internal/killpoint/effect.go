package killpoint

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"mailroom"
)

// runEffect performs an effect outside the server: it appends a line "KEY NONCE" to the file.
func (p *scriptRun) runEffect(ctx context.Context, kind string) error {
	e := mailroom.Effect{Name: p.sceneName(kind), Idempotent: kind == "sure"}
	if kind == "look" {
		e.Reconcile = p.findEffect
	}
	value, err := p.session.Do(ctx, e, func(_ context.Context, key string) (json.RawMessage, error) {
		p.point.reach("effect")
		nonce := rand.Text()
		if err := p.appendLine(key + " " + nonce + "\n"); err != nil {
			return nil, err
		}
		p.point.reach("effected")
		return json.Marshal(nonce)
	})
	if err != nil {
		return err
	}
	p.point.reach("result")
	body, err := json.Marshal(map[string]any{"effect": e.Name, "value": value})
	if err != nil {
		return err
	}
	return p.finishScene(ctx, mailroom.Step{Entries: []mailroom.AgentEntry{{Kind: "x.effect", Body: body}}})
}

// appendLine appends a line with one write call, so that a killed process leaves all of it or
// nothing.
func (p *scriptRun) appendLine(line string) error {
	f, err := os.OpenFile(p.file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("open the file of effects: %w", err)
	}
	_, err = f.WriteString(line)
	return errors.Join(err, f.Close())
}

// findEffect reports whether the effect of a key happened, and returns its nonce.
func (p *scriptRun) findEffect(_ context.Context, key string) (json.RawMessage, bool, error) {
	text, err := os.ReadFile(p.file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, false, fmt.Errorf("read the file of effects: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if k, nonce, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " "); k == key {
			value, err := json.Marshal(nonce)
			return value, true, err
		}
	}
	return nil, false, nil
}
