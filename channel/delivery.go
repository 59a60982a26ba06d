package channel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"mailroom"
)

// Delivery is what a run of a delivery thread brings: something that was said,
// asked, or a run that ended without a word. Exactly one of Text, Ticket and
// Ended is set.
type Delivery struct {
	Run    *mailroom.Run // of the conversation, that it comes from
	Origin *mailroom.Run // that brought the message which it answers: Run, or what Run descends from; nil if none came through this channel
	Text   string
	Ticket *mailroom.Ticket
	Ended  bool // Run says how
}

// delivery reads what a run brings.
func (l *Link) delivery(ctx context.Context, s mailroom.Session) (d Delivery, err error) {
	run := s.Run()
	if !run.Delivery() {
		return d, permanent("this agent sends what a conversation says; a message of its own cannot be for a chat")
	}
	input, err := s.Input(ctx)
	if err != nil {
		return d, err
	}
	if d.Run, d.Origin, err = l.source(ctx, run.Parent); err != nil {
		return d, err
	}
	if d.Run == nil {
		return d, permanent("run %s, of which this is a delivery, is no longer there", run.Parent)
	}
	for _, m := range input {
		for _, p := range m.Parts {
			if p.Type != "data" {
				continue
			}
			var body struct {
				Ticket *mailroom.Ticket `json:"ticket"`
			}
			if err := json.Unmarshal(p.Data, &body); err != nil {
				return d, permanent("read what is to be delivered: %w", err)
			}
			d.Ticket, d.Ended = body.Ticket, body.Ticket == nil
			return d, nil
		}
		d.Text = m.Text
	}
	return d, nil
}

// source finds a run, and the one in its line that came through this channel.
func (l *Link) source(ctx context.Context, id string) (run, origin *mailroom.Run, err error) {
	err = l.ledger.View(ctx, func(r mailroom.Reader) error {
		for range mailroom.MaxHops {
			rows, err := r.Runs(mailroom.RunQuery{IDs: []string{id}})
			if err != nil || len(rows) == 0 {
				return err
			}
			if run == nil {
				run = rows[0]
			}
			if rows[0].Origin.Via == Via(l.name) {
				origin = rows[0]
				return nil
			}
			if id = rows[0].Parent; id == "" {
				return nil
			}
		}
		return nil
	})
	return run, origin, err
}

func permanent(format string, args ...any) error {
	return &mailroom.Failure{Class: mailroom.Permanent, Err: fmt.Errorf(format, args...)}
}

// Broken is the adapter of a channel that cannot work as it is configured: it
// fails, says why, and keeps its deliveries until it was mended.
func Broken(why error) Adapter { return broken{why} }

type broken struct{ why error }

func (b broken) Receive(context.Context, *Link) error { return Fatal(b.why) }
func (b broken) Tend(context.Context, *Link)          {}
func (b broken) Deliver(context.Context, *Link, Delivery, mailroom.Session) error {
	return &mailroom.Failure{Class: mailroom.Outage, Err: errors.Join(errors.New("the channel cannot send"), b.why)}
}
