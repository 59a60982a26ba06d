package killpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"mailroom"
)

// valueOptions say which value an effect returns, or a step keeps as its checkpoint.
type valueOptions struct {
	Odd   bool // one that cannot be encoded
	Large int  // a text of so many bytes
}

// of returns the value that the options ask for, or value.
func (o valueOptions) of(value json.RawMessage) json.RawMessage {
	switch {
	case o.Odd:
		return json.RawMessage(`{`)
	case o.Large > 0:
		return json.RawMessage(`"` + strings.Repeat("x", o.Large) + `"`)
	}
	return value
}

// content returns the content of a blob that a script names: a text, with the number of the attempt for #, so many
// times. It returns nil without a text.
func (c *conformRun) content(op operation, attempt string) []byte {
	if len(op) < 3 {
		return nil
	}
	times := 1
	op.read(3, &times)
	return []byte(strings.Repeat(strings.ReplaceAll(op.text(2), "#", attempt), times))
}

// blob writes or deletes a blob, or compares it with a content.
func (c *conformRun) blob(ctx context.Context, op operation) error {
	name := op.text(1)
	if op.text(0) == "put" {
		content := c.content(op, strconv.Itoa(c.attempt))
		if content == nil {
			return c.s.Blobs().Delete(ctx, name)
		}
		return c.s.Blobs().Put(ctx, name, content)
	}
	found, err := c.s.Blobs().Get(ctx, name)
	if err != nil {
		return err
	}
	if found == nil {
		return c.keep(name, nil)
	}
	return c.keep(name, string(found) == string(c.content(op, "#")))
}

// try performs a script, and keeps the code of its error.
func (c *conformRun) try(ctx context.Context, op operation) error {
	var script []operation
	op.read(1, &script)
	if err := c.performAll(ctx, script); err != nil {
		return c.keep("caught", mailroom.CodeOf(err))
	}
	return nil
}

// raise returns an error with a code, the first time.
func (c *conformRun) raise(op operation) error {
	what := "raise " + op.text(1)
	if c.noted(what) {
		return nil
	}
	refused := mailroom.Errorf(mailroom.Code(op.text(1)), "it was refused")
	return errors.Join(c.note(what), fmt.Errorf("ask: %w", refused))
}

// more performs the operations that are about blobs, errors and the process.
func (c *conformRun) more(ctx context.Context, op operation) error {
	switch op.text(0) {
	case "put", "blob":
		return c.blob(ctx, op)
	case "try":
		return c.try(ctx, op)
	case "raise":
		return c.raise(op)
	case "close-stdout":
		return os.Stdout.Close()
	}
	return &mailroom.Failure{Class: mailroom.ClassPermanent, Err: fmt.Errorf("unknown operation %s", op[0])}
}
