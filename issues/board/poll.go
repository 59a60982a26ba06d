package board

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"mailroom/channel/httpcall"
	"mailroom/internal/digest"
)

// receiver is the state of one call of Receive.
type receiver struct {
	*connection
	*listing
	pos position
	// Of the claims that are followed, by submit key: the id of the run, as found in the ledger, and the key of the last
	// mark that was submitted.
	runIDs, marked map[string]string
	failed         int // issues in a row that could not be read, in this poll
}

// listing is what the feed has read of its board: first the open issues, and then the changes. It outlives a
// connection, so that a large board is read although some calls fail. It is not stored: after a restart the feed lists
// the board again.
type listing struct {
	cursor  string           // of the board
	known   map[string]*seen // issues that may be for this feed, and the issues of claims
	invalid int              // rows of the last page that were no issue
	full    bool             // more issues were listed than known keeps
}

// seen is an issue as last read, without its body.
type seen struct {
	Issue
	content string    // digest of title and body
	read    time.Time // when it was last read by its id; zero: never
	skipped bool      // it was not ready then
	refused string    // content that could not be submitted
	unread  time.Time // when it last could not be read by its id; zero: never
	misses  int       // how often in a row it could not be read
}

const (
	// maxPages bounds the pages of one poll.
	maxPages = 100
	// maxKnown bounds the issues that the feed keeps.
	maxKnown = 20_000
	// maxFailed is how many issues in a row may not be readable before that is an outage of the board.
	maxFailed = 2
)

func (c *connection) newReceiver(ctx context.Context) (*receiver, error) {
	raw, err := c.host.Position(ctx, cursorIdentity)
	if err != nil {
		return nil, err
	}
	pos, err := parsePosition(raw)
	if err != nil {
		return nil, err
	}
	return &receiver{connection: c, listing: c.takeListing(), pos: pos, runIDs: map[string]string{},
		marked: map[string]string{}}, nil
}

// takeListing returns the listing that the last connection left, or a new one. The caller owns it until it gives the
// listing back.
func (w *Watcher) takeListing() *listing {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.left
	if w.left = nil; l == nil {
		l = &listing{known: map[string]*seen{}}
	}
	return l
}

func (w *Watcher) leaveListing(l *listing) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left = l
}

// poll reads what has changed, and makes the ledger agree. It reports in again whether the board has more changes now.
func (r *receiver) poll(ctx context.Context) (again bool, err error) {
	for range maxPages {
		page, err := r.board.Changes(ctx, r.cursor)
		if err != nil {
			return false, err
		}
		r.host.Received()
		for _, it := range page.Issues {
			r.learn(it, time.Time{})
		}
		if page.Invalid > 0 && page.Invalid != r.invalid {
			r.host.ReportError(fmt.Errorf("the board listed %d rows that are no issue; they were left out", page.Invalid))
		}
		r.cursor, r.invalid, again = page.Next, page.Invalid, page.More
		if !again {
			break
		}
	}
	return again, r.work(ctx)
}

// content returns the digest of the text of an issue that its agent gets.
func content(it Issue) string { return digest.ID("issue", it.Title, it.Body) }

// learn remembers an issue that was listed, or read by its id at the time read. An older state of it changes nothing,
// because a list may come late.
func (r *receiver) learn(it Issue, read time.Time) *seen {
	old, claimed := r.known[it.ID], r.pos.Claims[it.ID].Key != ""
	switch {
	case old != nil && read.IsZero() && old.Native == it.Native && (it.UpdatedAt.Before(old.UpdatedAt) || old.shows(it)):
		return old
	case !claimed && !r.keeps(it):
		delete(r.known, it.ID)
		return &seen{Issue: it, content: content(it), read: read}
	case old == nil && len(r.known) >= maxKnown && !claimed:
		if !r.full {
			r.full = true
			r.host.ReportError(fmt.Errorf("the board has more than %d open issues with these labels; the others wait", maxKnown))
		}
		return &seen{Issue: it, content: content(it), read: read}
	}
	s := &seen{Issue: it, content: content(it), read: read}
	if old != nil {
		s.refused = old.refused
	}
	s.Body = ""
	r.known[it.ID] = s
	return s
}

// shows reports whether a listed issue says the same. Times of boards have seconds, so two states of an issue can have
// one time.
func (s *seen) shows(it Issue) bool {
	return s.UpdatedAt.Equal(it.UpdatedAt) && s.State == it.State && s.content == content(it) &&
		slices.Equal(s.Labels, it.Labels) && slices.Equal(s.Assignees, it.Assignees)
}

// errUnread says that an issue cannot be read. It waits, and the others go on.
var errUnread = errors.New("the issue cannot be read")

// unreadable reports that one issue cannot be read, and returns errUnread, or err if that is an outage of the board.
func (r *receiver) unreadable(id string, err error) error {
	if after, _ := httpcall.PauseOf(err); after > 0 || r.failed == maxFailed {
		return err
	}
	r.failed++
	name := id
	if s := r.known[id]; s != nil {
		s.unread, name = time.Now(), s.Name
		s.misses++
	}
	r.host.ReportError(fmt.Errorf("issue %s waits, because it cannot be read: %w", name, err))
	return errUnread
}

// waits reports whether an issue could not be read a short while ago: the interval of polls, doubled after each further
// failure.
func (r *receiver) waits(s *seen) bool {
	if s == nil || s.misses == 0 {
		return false
	}
	const doublings = 10
	pause := r.options.Interval << min(s.misses-1, doublings)
	return time.Since(s.unread) < min(pause, r.options.Recheck)
}

// reread reads an issue by its id. gone is true if it does not exist any more, or if another issue has its id. The
// error is errUnread if only this issue cannot be read.
func (r *receiver) reread(ctx context.Context, id, native string) (it Issue, s *seen, gone bool, err error) {
	it, err = r.board.Issue(ctx, id)
	switch {
	case errors.Is(err, ErrGone):
		delete(r.known, id)
		return it, nil, true, nil
	case err != nil:
		return it, nil, false, r.unreadable(id, err)
	case it.ID != id || native != "" && it.Native != native:
		delete(r.known, id)
		r.host.ReportError(fmt.Errorf("the board has another issue under the id %q now", id))
		return it, nil, true, nil
	}
	r.failed = 0
	return it, r.learn(it, time.Now()), false, nil
}
