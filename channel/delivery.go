package channel

import (
	"context"
	"encoding/json"
	"fmt"

	"mailroom"
)

// Delivery is what a run of a delivery thread brings: something that was said,
// asked, or a run that ended without a word. Exactly one of Text, Ticket and
// Ended is set.
type Delivery struct {
	// Run is that of the conversation, from which it comes. If the channel itself
	// says it, see [Host.Answer], it is that of the delivery, and so is Origin.
	Run    *mailroom.Run
	Origin *mailroom.Run // that brought the message which it answers: Run, or what Run descends from; nil if none came through this channel
	Text   string
	Ticket *mailroom.Ticket
	Ended  bool // Run says how
}

// readDelivery reads what a run brings.
func (r *Runner) readDelivery(ctx context.Context, s mailroom.Session) (d Delivery, err error) {
	run := s.Run()
	own := run.Origin.Via == Via(r.Name())
	if !own && !run.Delivery() {
		return d, permanent("this agent sends what a conversation says; a message of its own cannot be for a chat")
	}
	input, err := s.Input(ctx)
	if err != nil {
		return d, err
	}
	if own {
		d.Run, d.Origin = run, run
		for _, m := range input {
			d.Text = m.Text
		}
		return d, nil
	}
	if d.Run, d.Origin, err = r.findOrigin(ctx, run.Parent); err != nil {
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

// findOrigin finds a run, and the one in its line that came through this channel.
func (r *Runner) findOrigin(ctx context.Context, id string) (run, origin *mailroom.Run, err error) {
	err = r.options.Ledger.View(ctx, func(rd mailroom.Reader) error {
		for range mailroom.MaxHops {
			rows, err := rd.Runs(mailroom.RunQuery{IDs: []string{id}})
			if err != nil || len(rows) == 0 {
				return err
			}
			if run == nil {
				run = rows[0]
			}
			if rows[0].Origin.Via == Via(r.Name()) {
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
	return &mailroom.Failure{Class: mailroom.ClassPermanent, Err: fmt.Errorf(format, args...)}
}

// Broken is the Connect of a channel that cannot work as it is configured: it fails
// for good and says why, and its deliveries wait until that was mended.
func Broken(why error) Connect {
	return func(context.Context, *Host) (Adapter, error) { return nil, Fatal(why) }
}
