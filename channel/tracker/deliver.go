package tracker

import (
	"context"
	"encoding/json"
	"fmt"

	"mailroom"
	"mailroom/channel"
	issues "mailroom/tracker"
)

// KindUnsent is the kind of the entry that a delivery writes when the file has no
// place for it; its body is a [Note].
const KindUnsent = "x.tracker.unsent"

// Note is the body of such an entry.
type Note struct {
	Reason string `json:"reason"`
}

// Thread is the thread of an issue, by its id.
func Thread(name, issue string) string { return channel.ThreadID(name, issue) }

// Deliver takes a delivery: what was said or asked becomes a comment,
// and what has ended is concluded with it, in one write. It does nothing that the
// file says already, so it can be repeated.
func (w *Watcher) Deliver(ctx context.Context, l *channel.Host, d channel.Delivery, s mailroom.Session) error {
	server, err := w.serverID(ctx, l)
	if err != nil {
		return err
	}
	author, text := w.deliveryComment(d)
	found := false
	err = w.update(ctx, l, func(t *issues.Tracker) error {
		it := findIssue(t, l.Name(), d.Run.Thread, server)
		if found = it != nil; !found {
			return nil
		}
		m, ours := markerOf(it, server)
		if !ours {
			m = marker{}
		}
		if text != "" && !hasComment(it, author, text, d.Run.CreatedAt) {
			at := writeTime(it.UpdatedAt)
			if err := updateIssue(t, claim{it, m}, at, func(it *issues.Issue, _ *marker) { addComment(it, author, text, d.Run.CreatedAt, at) }); err != nil {
				return err
			}
			if it, err = t.Find(it.ID); err != nil {
				return err
			}
			m, _ = markerOf(it, server)
		}
		if c := (claim{it, m}); ours && m.Key == d.Run.SubmitKey && c.isOutdated(d.Run) {
			return w.conclude(t, c, d.Run)
		}
		return nil
	})
	w.requestScan() // there may be room for the next one
	switch {
	case err != nil:
		return &mailroom.Failure{Class: mailroom.ClassUnavailable, Err: fmt.Errorf("write to the tracker: %w", err)}
	case !found:
		l.Log().Info("what a run said is written to no issue, which is not there", "run", d.Run.ID)
		return appendNote(ctx, s, "the tracker has no such issue, or has it no more")
	}
	l.Sent()
	return nil
}

func appendNote(ctx context.Context, s mailroom.Session, why string) error {
	body, err := json.Marshal(Note{Reason: why})
	if err != nil {
		return fmt.Errorf("encode %s: %w", KindUnsent, err)
	}
	return s.Append(ctx, mailroom.Step{Entries: []mailroom.AgentEntry{{Kind: KindUnsent, Body: body}}, NoProgress: true})
}
