package channel

import (
	"context"
	"encoding/json"
	"fmt"

	"mailroom"
	"mailroom/internal/reserved"
	"mailroom/store"
	"mailroom/thread"
)

// Delivery is the content of a delivery run: a reply, a ticket, or a run that ended without a
// reply. Exactly one of Text, Ticket and Ended is set.
type Delivery struct {
	// Run is the conversation's run. For a message of the channel itself, see [Host.Answer], Run
	// and Origin are the delivery run.
	Run *mailroom.Run
	// the run of the message that is answered, Run or an ancestor; nil if none came through this channel
	Origin *mailroom.Run
	Text   string
	// Verbatim is shown without formatting before Text, see [Answer]. It may be set without Text.
	Verbatim string
	Ticket   *mailroom.Ticket
	Ended    bool // Run has ended without a reply
}

// readDelivery decodes the content of a delivery run.
func (r *Runner) readDelivery(ctx context.Context, s mailroom.Session) (d Delivery, err error) {
	run := s.Run()
	// A schedule that sends here is one of the operator, or a reminder of the chat: see AskSchedules.
	own := run.Origin.Via == Via(r.Name()) || run.Origin.Via == "run" && run.Origin.Sender == reserved.Scheduler
	if !own && !thread.IsDelivery(run) {
		return d, permanent("this agent delivers replies only; submit the message to the conversation's thread")
	}
	input, err := s.Input(ctx)
	if err != nil {
		return d, err
	}
	if own {
		if d.Run, _, err = r.findOrigin(ctx, run.ID); err != nil {
			return d, err
		}
		d.Origin = d.Run
		for _, m := range input {
			d.Text = m.Text
			if len(m.Parts) > 0 && m.Parts[0].MimeType == plainText {
				d.Verbatim, d.Text = m.Parts[0].Text, ""
				for _, p := range m.Parts[1:] {
					d.Text += p.Text
				}
			}
		}
		if r.options.Ended != nil {
			why, err := r.options.Ended(ctx, run.Metadata)
			switch {
			case err != nil:
				return d, err
			case why != "":
				return d, permanent("not sent: %s", why)
			}
		}
		if r.options.Link != nil {
			d.Text += r.options.Link(run.Metadata)
		}
		return d, nil
	}
	if d.Run, d.Origin, err = r.findOrigin(ctx, run.Parent); err != nil {
		return d, err
	}
	if d.Run == nil {
		return d, permanent("source run %s of this delivery no longer exists", run.Parent)
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
				return d, permanent("decode the delivery: %w", err)
			}
			d.Ticket, d.Ended = body.Ticket, body.Ticket == nil
			return d, nil
		}
		d.Text = m.Text
	}
	return d, nil
}

// findOrigin returns a run and its nearest ancestor that came through this channel.
func (r *Runner) findOrigin(ctx context.Context, id string) (run, origin *mailroom.Run, err error) {
	err = r.options.Ledger.View(ctx, func(rd store.Reader) error {
		for range mailroom.MaxHops {
			rows, err := rd.Runs(store.RunQuery{IDs: []string{id}})
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

// Broken returns the Connect of a misconfigured channel: it fails with a [Fatal] error, and
// deliveries wait until the configuration is fixed.
func Broken(why error) Connect {
	return func(context.Context, *Host) (Adapter, error) { return nil, Fatal(why) }
}
