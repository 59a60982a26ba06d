package poll

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/httpcall"
)

// Kinds of the entries that a delivery appends besides the entries of its effect.
const (
	KindRepeated = "x.poll.repeated" // Note: sent again, may be a duplicate
	KindUnsent   = "x.poll.unsent"   // Note: there is no recipient
	KindRefused  = "x.poll.refused"  // Note: first refusal by the platform
)

// Note is the body of these entries.
type Note struct {
	Reason string `json:"reason"`
}

// outgoing is a message to a peer or to the canvas of a workspace.
type outgoing struct {
	workspace string // sending workspace
	peer      string // agent that gets the message; "" for the canvas
	text      string
}

// Deliver implements [channel.Adapter]. The effect has the same name for every attempt. A
// delegation carries its idempotency key, so the platform recognizes a repeat. A notice has no key:
// it is sent again after a crash or a lost response, and the log marks a possible duplicate.
func (c *connection) Deliver(ctx context.Context, d channel.Delivery, s mailroom.Session) error {
	out, reason, err := c.composeReply(ctx, d)
	if err != nil {
		return err
	}
	if out == nil {
		c.host.Log().Info("reply not sent: no recipient", "run", d.Run.ID, "reason", reason)
		return appendNote(ctx, s, KindUnsent, reason)
	}
	effect := mailroom.Effect{Name: "send", Idempotent: out.peer != ""}
	if !effect.Idempotent {
		effect.Reconcile = func(ctx context.Context, _ string) (json.RawMessage, bool, error) {
			const reason = "an earlier attempt was interrupted with an unknown outcome"
			c.host.Log().Warn("reply sent again; may be a duplicate", "run", d.Run.ID)
			return nil, false, appendNote(ctx, s, KindRepeated, reason)
		}
	}
	_, err = s.Do(ctx, effect, func(ctx context.Context, key string) (answer json.RawMessage, err error) {
		if out.peer != "" {
			answer, err = c.client.delegate(ctx, out.workspace, out.peer, out.text, key)
		} else {
			err = c.client.notify(ctx, out.workspace, out.text)
		}
		return answer, sendError(err)
	})
	if err == nil {
		c.host.Sent()
		return nil
	}
	if _, refused := errors.AsType[*apiError](err); refused && mailroom.AsFailure(err).Class == mailroom.ClassPermanent {
		return c.host.HandleRefusal(ctx, s, KindRefused, c.options.RetryRefusedFor, err)
	}
	return err
}

// sendError classifies an error of a send. The error wraps [mailroom.ErrUnknown] if the outcome is
// unknown.
func sendError(err error) error {
	if err == nil {
		return nil
	}
	after := mailroom.AsFailure(err).RetryAfter
	if e, ok := errors.AsType[*apiError](err); ok {
		switch {
		case e.permanent():
			return &mailroom.Failure{Class: mailroom.ClassPermanent, RetryAfter: after, Err: e}
		case !e.maybeSent():
			return &mailroom.Failure{Class: mailroom.ClassUnavailable, RetryAfter: after, Err: e}
		}
	}
	if e, ok := errors.AsType[*httpcall.TransportError](err); ok && !e.MaybeSent {
		return &mailroom.Failure{Class: mailroom.ClassUnavailable, RetryAfter: after, Err: err}
	}
	return fmt.Errorf("%w: %w", mailroom.ErrUnknown, &mailroom.Failure{Class: mailroom.ClassUnavailable,
		RetryAfter: after, Err: err})
}

// composeReply returns the message for a delivery, or the reason why nothing is sent.
func (c *connection) composeReply(ctx context.Context, d channel.Delivery) (*outgoing, string, error) {
	if d.Origin == nil {
		return nil, "the original message did not come through this channel", nil
	}
	labels := d.Origin.Metadata
	out := &outgoing{workspace: labels[labelWorkspace]}
	if out.workspace == "" {
		out.workspace = c.options.Workspace
	}
	if d.Ticket != nil {
		if out.text = c.questionText(d); out.text == "" {
			return nil, "no person can decide this ticket", nil
		}
		return out, "", nil // questions go to the person, even if an agent sent the task
	}
	switch labels[labelKind] {
	case kindCanvas:
	case kindPeer:
		if out.peer = labels[labelPeer]; out.peer == "" {
			return nil, "the requesting agent has no peer id", nil
		}
	case kindResult:
		return nil, "delegation results get no reply", nil
	default:
		return nil, fmt.Sprintf("messages of kind %q get no reply", labels[labelKind]), nil
	}
	out.text = strings.TrimRight(d.Text, " \t\r\n") // programs end their output with a newline
	if d.Ended {
		end, err := loadEnding(ctx, c.host, d.Run)
		if err != nil {
			return nil, "", err
		}
		out.text = end.text()
	}
	return out, "", nil
}

func appendNote(ctx context.Context, s mailroom.Session, kind, reason string) error {
	body, err := json.Marshal(Note{Reason: reason})
	if err != nil {
		return fmt.Errorf("encode %s: %w", kind, err)
	}
	return s.Append(ctx, mailroom.Step{Entries: []mailroom.AgentEntry{{Kind: kind, Body: body}}, NoProgress: true})
}
