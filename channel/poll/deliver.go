package poll

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"mailroom"
	"mailroom/channel"
)

// Kinds of the entries that a delivery writes beside those of its effect.
const (
	KindRepeated = "x.poll.repeated" // Note: it may have been sent before, and is sent again
	KindUnsent   = "x.poll.unsent"   // Note: there is nobody to send it to
	KindRefused  = "x.poll.refused"  // Note: the platform has refused it for the first time
)

// Note is the body of these entries.
type Note struct {
	Reason string `json:"reason"`
}

// outgoing is what is to be sent: to a peer, or to the canvas of a workspace.
type outgoing struct {
	workspace string // from where
	peer      string // "" for the canvas
	text      string
}

// Deliver implements [channel.Adapter]. The effect is named once for a delivery: a
// delegation has its key, so a repeat is recognised by the platform. A notice has
// none: after a crash, or an answer that was lost, it is sent again, and the log
// says that it may be there twice.
func (c *connection) Deliver(ctx context.Context, d channel.Delivery, s mailroom.Session) error {
	out, why, err := c.composeReply(ctx, d)
	if err != nil {
		return err
	}
	if out == nil {
		c.host.Log().Info("a reply is sent to nobody", "run", d.Run.ID, "reason", why)
		return appendNote(ctx, s, KindUnsent, why)
	}
	effect := mailroom.Effect{Name: "send", Idempotent: out.peer != ""}
	if !effect.Idempotent {
		effect.Reconcile = func(ctx context.Context, _ string) (json.RawMessage, bool, error) {
			const why = "an attempt to send it broke off, and nobody knows whether it arrived"
			c.host.Log().Warn("a reply is sent again, and may be there twice", "run", d.Run.ID)
			return nil, false, appendNote(ctx, s, KindRepeated, why)
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

// sendError gives an error of a send its class. One after which nobody knows
// whether the platform has it is an [mailroom.ErrUnknown] too.
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
	if _, ok := errors.AsType[*notSentError](err); ok {
		return &mailroom.Failure{Class: mailroom.ClassUnavailable, RetryAfter: after, Err: err}
	}
	return fmt.Errorf("%w: %w", mailroom.ErrUnknown, &mailroom.Failure{Class: mailroom.ClassUnavailable, RetryAfter: after, Err: err})
}

// composeReply says what is to be sent where, or why nothing is.
func (c *connection) composeReply(ctx context.Context, d channel.Delivery) (*outgoing, string, error) {
	if d.Origin == nil {
		return nil, "what it answers did not come through this channel", nil
	}
	labels := d.Origin.Metadata
	out := &outgoing{workspace: labels[labelWorkspace]}
	if out.workspace == "" {
		out.workspace = c.options.Workspace
	}
	if d.Ticket != nil {
		if out.text = c.questionText(d); out.text == "" {
			return nil, "it waits for something that nobody decides", nil
		}
		return out, "", nil // to the person, also if an agent has asked
	}
	switch labels[labelKind] {
	case kindCanvas:
	case kindPeer:
		if out.peer = labels[labelPeer]; out.peer == "" {
			return nil, "the agent that asked did not say which one it is", nil
		}
	case kindResult:
		return nil, "the result of a delegation is not answered", nil
	default:
		return nil, fmt.Sprintf("messages of kind %q are not answered", labels[labelKind]), nil
	}
	out.text = strings.TrimRight(d.Text, " \t\r\n") // what a program ends its output with
	if d.Ended {
		end, err := loadEnding(ctx, c.host, d.Run)
		if err != nil {
			return nil, "", err
		}
		out.text = end.text()
	}
	return out, "", nil
}

func appendNote(ctx context.Context, s mailroom.Session, kind, why string) error {
	body, err := json.Marshal(Note{Reason: why})
	if err != nil {
		return fmt.Errorf("encode %s: %w", kind, err)
	}
	return s.Append(ctx, mailroom.Step{Entries: []mailroom.AgentEntry{{Kind: kind, Body: body}}, NoProgress: true})
}
