package feed

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"mailroom"
	"mailroom/issues/tracker"
)

// ready returns the issues that this server could claim, the most urgent first, and how many of them it may claim
// before it reaches max_claimed.
func (r *receiver) ready(t *tracker.Tracker, runs map[string]*mailroom.Run) (found []*tracker.Issue, room int) {
	room = r.options.MaxClaims
	for _, c := range ownClaims(t, r.server) {
		if c.inProgress() {
			room--
		}
	}
	for _, it := range t.Ready(tracker.Filter{Labels: r.options.Labels}, tracker.OrderPriority, time.Now()) {
		if r.accepts(it) && r.canClaimAgain(it, runs) && !r.abandoned[submitKey(it)] && !r.isReservedElsewhere(it.ID) {
			found = append(found, it)
		}
	}
	return found, room
}

// canClaimAgain reports whether an open issue may be claimed although it was claimed before. The run of the earlier
// claim must have ended, and the issue must have changed since. Otherwise an agent that reopens its own issue would
// get the issue again forever.
func (r *receiver) canClaimAgain(it *tracker.Issue, runs map[string]*mailroom.Run) bool {
	m, ours := markerOf(it, r.server)
	if !ours {
		return true
	}
	run, known := runs[m.Key]
	switch {
	case !known: // claimed after this scan had read the file
		return false
	case run != nil && !run.Status.Finished():
		return false
	case run != nil && !started(run):
		return true
	}
	return m.Concluded.IsZero() || !it.UpdatedAt.Equal(m.Concluded)
}

// isUnchanged reports whether the issue still has the assignee and status that this server wrote when it claimed the
// issue or recorded the end of the run.
func (c claim) isUnchanged(run *mailroom.Run) bool {
	return c.issue.Assignee == run.Agent && (c.inProgress() ||
		c.issue.Status == tracker.StatusBlocked && !c.Concluded.IsZero())
}

// isOutdated reports whether the file does not show the current state of the run.
func (c claim) isOutdated(run *mailroom.Run) bool {
	switch {
	case run == nil, c.issue.Status == tracker.StatusTombstone:
		return false
	case needsConclusion(run, c.marker):
		return started(run) || c.isUnchanged(run)
	}
	return !run.Status.Finished() && !c.Concluded.IsZero() && c.isUnchanged(run) // the run was retried
}

// updateFile writes the results of runs and the next claims in one write of the file.
func (r *receiver) updateFile(ctx context.Context, runs map[string]*mailroom.Run) error {
	var ended []*mailroom.Run
	for _, c := range r.claims {
		if run := runs[c.Key]; needsConclusion(run, c.marker) {
			ended = append(ended, run)
		}
	}
	branches, err := BranchTexts(ctx, r.host, ended...)
	if err != nil {
		return err
	}
	return r.update(ctx, r.host, func(t *tracker.Tracker) error {
		for _, c := range ownClaims(t, r.server) {
			if run := runs[c.Key]; !r.abandoned[c.Key] && c.isOutdated(run) {
				if err := r.conclude(t, c, run, branches[run.ID], writeTime(run.FinishedAt)); err != nil {
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
				continue // became ready after the reservations
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

// abandon stops the work on an issue whose line cannot be written because of invalid values.
func (r *receiver) abandon(it *tracker.Issue, key string, cause error) {
	r.abandoned[key] = true
	r.host.ReportError(fmt.Errorf("issue %s skipped: %w", it.ID, cause))
}

// claim assigns an issue to its agent and stores the key of the submit in it.
func (r *receiver) claim(t *tracker.Tracker, it *tracker.Issue, key string) error {
	agent := r.agentOf(it)
	_, err := t.Update(it.ID, tracker.Signature{Actor: agent, At: writeTime(it.UpdatedAt)}, func(it *tracker.Issue) error {
		it.Assignee, it.Status = agent, tracker.StatusInProgress
		return marker{Server: r.server, Key: key}.store(it)
	})
	return err
}

// conclude records the end of a claim's run in its issue. If a person has closed or reassigned the
// issue since, only the comments are added: the reply, and branch, which says where the changes are.
func (w *Watcher) conclude(t *tracker.Tracker, c claim, run *mailroom.Run, branch string, at time.Time) error {
	own := c.isUnchanged(run)
	return updateIssue(t, c, at, func(it *tracker.Issue, m *marker) {
		switch {
		case !run.Status.Finished():
			it.Status, m.Concluded = tracker.StatusInProgress, time.Time{}
			return
		case run.Status == mailroom.StatusCompleted:
			addComment(it, run.Agent, replyText(run), run.CreatedAt, at)
			addComment(it, systemAuthor, branch, run.CreatedAt, at)
			if own && w.options.KeepOpen {
				it.Status = tracker.StatusInProgress
			} else if own {
				it.Status, it.CloseReason = tracker.StatusClosed, closeReason(run)
			}
		default:
			addComment(it, systemAuthor, w.failureText(it, run), run.CreatedAt, at)
			if own {
				it.Status = tracker.StatusBlocked
			}
		}
		m.Concluded = at
	})
}

// updateIssue changes an issue and its marker. It sets Concluded to the time of this write, so that the server's own
// write does not make the issue claimable again.
func updateIssue(t *tracker.Tracker, c claim, at time.Time, f func(*tracker.Issue, *marker)) error {
	_, err := t.Update(c.issue.ID, tracker.Signature{At: at}, func(it *tracker.Issue) error {
		m := c.marker
		f(it, &m)
		if m.Concluded.Equal(c.Concluded) && !m.Concluded.IsZero() && c.issue.UpdatedAt.Equal(c.Concluded) {
			m.Concluded = at
		}
		if m.Key == "" {
			return nil // never claimed by this server
		}
		return m.store(it)
	})
	return err
}

// systemAuthor is the author of comments that are not an agent's.
const systemAuthor = "mailroom"

// addComment adds a comment unless it exists. Deliveries may be repeated.
func addComment(it *tracker.Issue, author, text string, since, at time.Time) {
	if text == "" || hasComment(it, author, text, since) {
		return
	}
	c := tracker.Comment{ID: 1, Author: author, Text: text, CreatedAt: at}
	for _, old := range it.Comments {
		c.ID = max(c.ID, old.ID+1)
	}
	it.Comments = append(it.Comments, c)
}

// hasComment reports whether author has written a comment with this text after since.
func hasComment(it *tracker.Issue, author, text string, since time.Time) bool {
	return slices.ContainsFunc(it.Comments, func(c tracker.Comment) bool {
		return c.Author == author && c.Text == text && !c.CreatedAt.Before(since)
	})
}

// findIssue returns the issue that belongs to a thread, or nil. An issue that was renamed after its
// submit belongs to the thread of its old id, unless another issue has that id now.
func findIssue(t *tracker.Tracker, channel, thread, server string) (renamed *tracker.Issue) {
	for _, it := range t.All() {
		if it.Status == tracker.StatusTombstone {
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

// closeReason returns the reason for closing an issue: the first line of the reply.
func closeReason(run *mailroom.Run) string {
	first, _, _ := strings.Cut(replyText(run), "\n")
	if first = strings.TrimSpace(first); first == "" {
		return run.Agent + " finished without a reply"
	}
	return truncate(first, maxReason, "…")
}
