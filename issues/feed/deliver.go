package feed

import (
	"context"
	"encoding/json"
	"fmt"

	"mailroom"
	"mailroom/channel"
	"mailroom/issues/tracker"
)

// KindUnsent is the kind of the entry for a delivery whose issue does not exist. Its body is a
// [Note].
const KindUnsent = "x.tracker.unsent"

// Note is the body of a KindUnsent entry.
type Note struct {
	Reason string `json:"reason"`
}

// Thread returns the thread of an issue.
func Thread(name, issue string) string { return channel.ThreadID(name, issue) }

// Deliver writes a delivery to the tracker: a message or a question becomes a comment, and the end
// of a run closes or blocks its issue, in one write. A repeated delivery changes nothing.
func (w *Watcher) Deliver(ctx context.Context, l *channel.Host, d channel.Delivery, s mailroom.Session) error {
	server, err := w.serverID(ctx, l)
	if err != nil {
		return err
	}
	branches, err := BranchTexts(ctx, l, d.Run)
	if err != nil {
		return err
	}
	author, text := w.deliveryComment(d)
	found := false
	err = w.update(ctx, l, func(t *tracker.Tracker) error {
		it := findIssue(t, l.Name(), d.Run.Thread, server)
		if found = it != nil; !found {
			return nil
		}
		m, ours := markerOf(it, server)
		if !ours {
			m = marker{}
		}
		at := writeTime(it.UpdatedAt) // time of the comment and of the end, which are one write
		if at.Before(d.Run.FinishedAt) {
			at = d.Run.FinishedAt
		}
		if text != "" && !hasComment(it, author, text, d.Run.CreatedAt) {
			if err := updateIssue(t, claim{it, m}, at, func(it *tracker.Issue, _ *marker) {
				addComment(it, author, text, d.Run.CreatedAt, at)
			}); err != nil {
				return err
			}
			if it, err = t.Find(it.ID); err != nil {
				return err
			}
			m, _ = markerOf(it, server)
		}
		if c := (claim{it, m}); ours && m.Key == d.Run.SubmitKey && c.isOutdated(d.Run) {
			return w.conclude(t, c, d.Run, branches[d.Run.ID], at)
		}
		return nil
	})
	w.requestScan() // the next issue may be claimable now
	switch {
	case err != nil:
		return &mailroom.Failure{Class: mailroom.ClassUnavailable, Err: fmt.Errorf("write tracker: %w", err)}
	case !found:
		l.Log().Info("comment not written because its issue was removed; the thread has the text", "run", d.Run.ID)
		return appendNote(ctx, s, "the issue does not exist or was deleted")
	}
	l.Sent()
	return nil
}

func appendNote(ctx context.Context, s mailroom.Session, reason string) error {
	body, err := json.Marshal(Note{Reason: reason})
	if err != nil {
		return fmt.Errorf("encode %s: %w", KindUnsent, err)
	}
	return s.Append(ctx, mailroom.Step{Entries: []mailroom.AgentEntry{{Kind: KindUnsent, Body: body}}, NoProgress: true})
}
