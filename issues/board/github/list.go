package github

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"mailroom/channel/httpcall"
	"mailroom/internal/lazyregexp"
	"mailroom/issues/board"
)

// cursor is the place in the list of changes. It begins with the open issues that have the labels of the options, and
// then follows all changes, also those that take an issue away from this feed.
//
// The list is sorted by the time of the last change, the oldest first, and the next page begins at the time of the last
// row. So no issue is missed when others move in the list between two pages. Only a page whose rows all have one time
// is followed by a page with the next number.
type cursor struct {
	Since time.Time `json:"since,omitzero"`
	Page  int       `json:"page,omitempty"` // 0 is the first
	Live  bool      `json:"live,omitempty"` // the open issues were listed
	Start time.Time `json:"start,omitzero"` // when the list of the open issues began, by the clock of the server
}

const (
	pageSize = 100
	// overlap is read again at each poll, because a change can appear in the list later than its time.
	overlap = time.Minute
	// maxSame bounds the pages without a later time.
	maxSame = 30
)

var errRepeats = errors.New("GitHub repeats the pages of its list")

// Changes implements [board.Board].
func (b *Board) Changes(ctx context.Context, at string) (page board.Changes, err error) {
	var c cursor
	if at != "" {
		if err := json.Unmarshal([]byte(at), &c); err != nil {
			return page, err
		}
	}
	const op = "list the issues"
	path, etag := b.listPath(c), ""
	if b.poll.path == path && time.Since(b.poll.at) < maxConditional {
		etag = b.poll.etag
	}
	r, err := b.call(ctx, op, http.MethodGet, path, nil, etag)
	if err != nil {
		return page, err
	}
	if r.Status == http.StatusNotModified {
		page.Next = at
		return page, nil
	}
	var rows []json.RawMessage
	if err := json.Unmarshal(r.Body, &rows); err != nil {
		return page, httpcall.Unavailable(b.http.NotAPI(op, r, false))
	}
	times := b.decode(rows, &page)
	more := hasNext(r.Header)
	next, err := c.after(times, more, board.ServerTime(r, time.Now()).UTC())
	if err != nil {
		return page, httpcall.Unavailable(err)
	}
	raw, err := json.Marshal(next)
	page.Next, page.More = string(raw), more || !c.Live
	b.poll = conditional{}
	if !page.More {
		b.poll = conditional{path: b.listPath(next), etag: r.Header.Get("ETag"), at: time.Now()}
		if b.poll.path != path {
			b.poll.etag = "" // the next request is another one
		}
	}
	return page, err
}

func (b *Board) listPath(c cursor) string {
	q := url.Values{"state": {"all"}, "sort": {"updated"}, "direction": {"asc"}, "per_page": {strconv.Itoa(pageSize)}}
	if !c.Live {
		q.Set("state", "open")
		q.Set("labels", strings.Join(b.options.Labels, ","))
	}
	if !c.Since.IsZero() {
		q.Set("since", c.Since.UTC().Format(time.RFC3339))
	}
	if c.Page > 0 {
		q.Set("page", strconv.Itoa(c.Page+1))
	}
	return b.repoPath("/issues?%s", q.Encode())
}

// decode adds the issues of a page, without pull requests, and returns the times of all its rows.
func (b *Board) decode(rows []json.RawMessage, page *board.Changes) (times []time.Time) {
	for _, raw := range rows {
		var r row
		if err := json.Unmarshal(raw, &r); err != nil {
			page.Invalid++
			continue
		}
		it, ok := b.issue(r)
		if !ok {
			page.Invalid++
			continue
		}
		times = append(times, it.UpdatedAt)
		if len(r.PullRequest) == 0 {
			page.Issues = append(page.Issues, it)
		}
	}
	return times
}

// after returns the cursor after a page with rows of these times. A time in the future moves it to the present only, so
// that no change is missed because of one row.
func (c cursor) after(times []time.Time, more bool, now time.Time) (cursor, error) {
	if c.Start.IsZero() {
		c.Start = now
	}
	last := c.Since
	for _, t := range times {
		if t.After(now) {
			t = now
		}
		if t.After(last) {
			last = t.Truncate(time.Second)
		}
	}
	switch {
	case more && slices.IsSortedFunc(times, time.Time.Compare) && last.After(c.Since):
		c.Since, c.Page = last, 0
	case more:
		if c.Page++; c.Page > maxSame {
			return c, errRepeats
		}
	case !c.Live:
		c = cursor{Since: c.Start.Add(-overlap).Truncate(time.Second), Live: true}
	default:
		if last = last.Add(-overlap); last.Before(c.Since) {
			last = c.Since
		}
		c.Since, c.Page = last, 0
	}
	return c, nil
}

// hasNext reports whether a page has a next one. The address itself is not used: it could lead to another host.
func hasNext(h http.Header) bool {
	for _, link := range h.Values("Link") {
		for part := range strings.SplitSeq(link, ",") {
			if _, params, ok := strings.Cut(part, ">"); ok && strings.Contains(params, `rel="next"`) {
				return true
			}
		}
	}
	return false
}

// row is an issue or a pull request.
// https://docs.github.com/en/rest/issues/issues#get-an-issue
type row struct {
	Number       int64           `json:"number"`
	ID           int64           `json:"id"`
	Title        string          `json:"title"`
	Body         *string         `json:"body"`
	URL          string          `json:"html_url"`
	State        string          `json:"state"`
	Labels       []label         `json:"labels"`
	Assignees    []account       `json:"assignees"`
	PullRequest  json.RawMessage `json:"pull_request"`
	CreatedAt    time.Time       `json:"created_at"`
	UpdatedAt    time.Time       `json:"updated_at"`
	Dependencies *struct {
		BlockedBy int `json:"blocked_by"`
	} `json:"issue_dependencies_summary"`
}

type account struct {
	Login string `json:"login"`
}

// label is a label: an object, or only its name.
type label string

func (l *label) UnmarshalJSON(raw []byte) error {
	if bytes.HasPrefix(raw, []byte(`"`)) {
		return json.Unmarshal(raw, (*string)(l))
	}
	var object struct {
		Name string `json:"name"`
	}
	err := json.Unmarshal(raw, &object)
	*l = label(object.Name)
	return err
}

const maxNames = 100 // labels, and assignees

// issue returns the issue of a row. ok is false if the row has no valid number, state or time.
func (b *Board) issue(r row) (it board.Issue, ok bool) {
	if r.Number <= 0 || r.ID <= 0 || r.State != "open" && r.State != "closed" || r.UpdatedAt.IsZero() {
		return it, false
	}
	number := strconv.FormatInt(r.Number, 10)
	it = board.Issue{ID: number, Native: strconv.FormatInt(r.ID, 10), Name: b.options.Repo + "#" + number,
		Title: board.Cut(r.Title, board.MaxTitle), URL: board.Cut(r.URL, board.MaxTitle),
		Priority:  board.DefaultPriority,
		CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(), State: board.StateOpen,
		Status: r.State}
	if r.Body != nil {
		it.Body = board.Cut(*r.Body, board.MaxBody)
	}
	for _, l := range r.Labels[:min(len(r.Labels), maxNames)] {
		name := strings.ToLower(board.Cut(string(l), board.MaxTitle))
		it.Labels = append(it.Labels, name)
		if priority().MatchString(name) {
			it.Priority = int(name[1] - '0')
		}
	}
	for _, a := range r.Assignees[:min(len(r.Assignees), maxNames)] {
		it.Assignees = append(it.Assignees, board.Cut(a.Login, board.MaxTitle))
	}
	for n, mark := range b.marks() {
		if slices.Contains(it.Labels, mark) {
			it.State = []board.State{board.StateBlocked, board.StateDone, board.StateWorking}[n]
			break
		}
	}
	if r.State == "closed" {
		it.State = board.StateClosed
	}
	return it, true
}

var priority = lazyregexp.New(`^p[0-4]$`)
