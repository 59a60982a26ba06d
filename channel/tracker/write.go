package tracker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"mailroom"
	issues "mailroom/tracker"
)

// ready are the issues that can be given, the most urgent first, and room is for
// how many of them.
func (r *receiver) ready(t *issues.Tracker, runs map[string]*mailroom.Run) (found []*issues.Issue, room int) {
	room = r.options.MaxClaims
	for _, c := range ownClaims(t, r.server) {
		if c.inProgress() {
			room--
		}
	}
	for _, it := range t.Ready(issues.Filter{Labels: r.options.Labels}, issues.OrderPriority, time.Now()) {
		if r.accepts(it) && r.canClaimAgain(it, runs) && !r.abandoned[submitKey(it)] && !r.isReservedElsewhere(it.ID) {
			found = append(found, it)
		}
	}
	return found, room
}

// canClaimAgain reports whether an open issue is to be given, though it may have been once:
// not before that run has ended, and not as the run has left it, or an agent that
// gives an issue back would get it for ever.
func (r *receiver) canClaimAgain(it *issues.Issue, runs map[string]*mailroom.Run) bool {
	m, ours := markerOf(it, r.server)
	if !ours {
		return true
	}
	run, known := runs[m.Key]
	switch {
	case !known: // the file has it since it was looked at
		return false
	case run != nil && !run.Status.Finished():
		return false
	case run != nil && !started(run):
		return true
	}
	return m.Concluded.IsZero() || !it.UpdatedAt.Equal(m.Concluded)
}

// isUnchanged reports whether an issue is still as the claim, or what was told of its run,
// has left it.
func (c claim) isUnchanged(run *mailroom.Run) bool {
	return c.issue.Assignee == run.Agent && (c.inProgress() || c.issue.Status == issues.StatusBlocked && !c.Concluded.IsZero())
}

// isOutdated reports whether the file does not say yet what became of a run.
func (c claim) isOutdated(run *mailroom.Run) bool {
	switch {
	case run == nil, c.issue.Status == issues.StatusTombstone:
		return false
	case needsConclusion(run, c.marker):
		return started(run) || c.isUnchanged(run)
	}
	return !run.Status.Finished() && !c.Concluded.IsZero() && c.isUnchanged(run) // it is retried
}

// updateFile brings the file up to date, in one go: what runs have come to, and what is
// claimed next.
func (r *receiver) updateFile(ctx context.Context, runs map[string]*mailroom.Run) error {
	return r.update(ctx, r.host, func(t *issues.Tracker) error {
		for _, c := range ownClaims(t, r.server) {
			if run := runs[c.Key]; !r.abandoned[c.Key] && c.isOutdated(run) {
				if err := r.conclude(t, c, run); err != nil {
					r.abandon(c.issue, c.Key, err)
				}
			}
		}
		ready, room := r.ready(t, runs)
		for _, it := range ready {
			if room <= 0 {
				break
			}
			if r.options.Project != "" && r.reserved[it.ID].holder != r.agentOf(it) {
				continue // it has come since
			}
			key := submitKey(it)
			if err := r.claim(t, it, key); err != nil {
				r.abandon(it, key, err)
				continue
			}
			room--
		}
		return nil
	})
}

// abandon leaves an issue alone whose line cannot be written, because of what
// somebody else has put there.
func (r *receiver) abandon(it *issues.Issue, key string, why error) {
	r.abandoned[key] = true
	r.host.ReportError(fmt.Errorf("issue %s is left alone: %w", it.ID, why))
}

// claim makes an issue its agent's, and has its line say under which key it will
// be submitted.
func (r *receiver) claim(t *issues.Tracker, it *issues.Issue, key string) error {
	agent := r.agentOf(it)
	_, err := t.Update(it.ID, issues.Signature{Actor: agent, At: writeTime(it.UpdatedAt)}, func(it *issues.Issue) error {
		it.Assignee, it.Status = agent, issues.StatusInProgress
		return marker{Server: r.server, Key: key}.store(it)
	})
	return err
}

// conclude has an issue say how the run of its claim has ended. Who has closed it,
// or taken it, meanwhile has the say: it gets the words, and stays as it is.
func (w *Watcher) conclude(t *issues.Tracker, c claim, run *mailroom.Run) error {
	own, at := c.isUnchanged(run), writeTime(run.FinishedAt)
	return updateIssue(t, c, at, func(it *issues.Issue, m *marker) {
		switch {
		case !run.Status.Finished():
			it.Status, m.Concluded = issues.StatusInProgress, time.Time{}
			return
		case run.Status == mailroom.StatusCompleted:
			addComment(it, run.Agent, replyText(run), run.CreatedAt, at)
			if own && w.options.KeepOpen {
				it.Status = issues.StatusInProgress
			} else if own {
				it.Status, it.CloseReason = issues.StatusClosed, closeReason(run)
			}
		default:
			addComment(it, systemAuthor, w.failureText(it, run), run.CreatedAt, at)
			if own {
				it.Status = issues.StatusBlocked
			}
		}
		m.Concluded = at
	})
}

// updateIssue changes a claimed issue. That we write to an issue is no change that has
// it given again.
func updateIssue(t *issues.Tracker, c claim, at time.Time, f func(*issues.Issue, *marker)) error {
	_, err := t.Update(c.issue.ID, issues.Signature{At: at}, func(it *issues.Issue) error {
		m := c.marker
		f(it, &m)
		if m.Concluded.Equal(c.Concluded) && !m.Concluded.IsZero() && c.issue.UpdatedAt.Equal(c.Concluded) {
			m.Concluded = at
		}
		if m.Key == "" {
			return nil // nobody here has claimed it
		}
		return m.store(it)
	})
	return err
}

// systemAuthor is whose comments are that no agent has written.
const systemAuthor = "mailroom"

// addComment adds a comment, unless it is there: a delivery may come again.
func addComment(it *issues.Issue, author, text string, since, at time.Time) {
	if text == "" || hasComment(it, author, text, since) {
		return
	}
	c := issues.Comment{ID: 1, Author: author, Text: text, CreatedAt: at}
	for _, old := range it.Comments {
		c.ID = max(c.ID, old.ID+1)
	}
	it.Comments = append(it.Comments, c)
}

// hasComment reports whether somebody has said something since a run was submitted.
func hasComment(it *issues.Issue, author, text string, since time.Time) bool {
	return slices.ContainsFunc(it.Comments, func(c issues.Comment) bool {
		return c.Author == author && c.Text == text && !c.CreatedAt.Before(since)
	})
}

// findIssue returns the issue of a thread, nil if the file has none: the one of that id,
// or one that was submitted there before it got another.
func findIssue(t *issues.Tracker, channel, thread, server string) (renamed *issues.Issue) {
	for _, it := range t.All() {
		if it.Status == issues.StatusTombstone {
			continue
		}
		if Thread(channel, it.ID) == thread {
			return it
		}
		if m, ours := markerOf(it, server); ours && Thread(channel, claim{it, m}.claimedID()) == thread {
			renamed = it
		}
	}
	return renamed
}

// closeReason is what an issue is closed with: the first line of the reply.
func closeReason(run *mailroom.Run) string {
	first, _, _ := strings.Cut(replyText(run), "\n")
	if first = strings.TrimSpace(first); first == "" {
		return run.Agent + " is done and has said nothing"
	}
	return truncate(first, maxReason, "…")
}
