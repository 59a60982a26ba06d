package github

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"mailroom/channel/httpcall"
	"mailroom/internal/setting"
	"mailroom/issues/board"
	"mailroom/issues/tracker"
)

// apiAddress is the address of the API of github.com.
const apiAddress = "https://api.github.com"

// exported is an issue with what a tracker keeps of it.
type exported struct {
	row
	User     *account        `json:"user"`
	Comments int             `json:"comments"`
	ClosedAt time.Time       `json:"closed_at"`
	Reason   string          `json:"state_reason"`
	Type     json.RawMessage `json:"type"` // of the organization's types of issues, an object with a name; or null
	Parent   string          `json:"parent_issue_url"`
	Blocked  *struct {
		Total int `json:"total_blocked_by"`
	} `json:"issue_dependencies_summary"`
}

// Export reads the issues of a repository for a tracker, with their comments, parents and dependencies. r.Place is
// OWNER/NAME, or the repository's address. r.API decides where the token is sent, not the address.
func Export(ctx context.Context, r tracker.Remote) ([]tracker.Outside, error) {
	repo, api, err := placeOf(r)
	if err != nil {
		return nil, err
	}
	b, err := New(Options{Base: api, Repo: repo, Token: r.Token})
	if err != nil {
		return nil, err
	}
	defer b.Close()
	if err := board.Patiently(ctx, func() error { _, err := b.Account(ctx); return err }); err != nil {
		return nil, err
	}
	rows, err := b.exportRows(ctx, r)
	if err != nil {
		return nil, err
	}
	keys := map[int64]string{} // by number
	for _, e := range rows {
		keys[e.Number] = key(e.ID)
	}
	rows = slices.DeleteFunc(rows, func(e exported) bool {
		seen, has := r.Seen[key(e.ID)]
		return has && seen.Equal(e.UpdatedAt)
	})
	comments, err := b.exportAllComments(ctx, rows)
	if err != nil {
		return nil, err
	}
	var all []tracker.Outside
	for _, e := range rows {
		o, err := b.outside(ctx, e, keys, comments[e.Number])
		if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, nil
}

func key(id int64) string { return "github:" + strconv.FormatInt(id, 10) }

// placeOf returns the repository and the API of a place.
func placeOf(r tracker.Remote) (repo string, api *url.URL, err error) {
	repo, address := strings.TrimSuffix(strings.TrimSuffix(r.Place, "/"), ".git"), r.API
	if u, err := url.Parse(repo); err == nil && u.Scheme == "https" && u.Host != "" {
		parts := strings.Split(strings.Trim(u.Path, "/"), "/")
		const ownerAndName = 2
		if len(parts) < ownerAndName {
			return "", nil, fmt.Errorf("the address %q names no repository", r.Place)
		}
		if repo = path.Join(parts[0], parts[1]); address == "" && !strings.EqualFold(u.Host, "github.com") {
			return "", nil, fmt.Errorf("the token is for github.com; to send it to %s, set GITHUB_API_URL=https://%[1]s/api/v3",
				u.Host) // an address that a stranger wrote must not get it
		}
	}
	if address == "" {
		address = apiAddress
	}
	api, err = setting.ParseBaseURL(address, apiAddress)
	return repo, api, err
}

// exportRows lists the issues of a repository, each once.
func (b *Board) exportRows(ctx context.Context, r tracker.Remote) ([]exported, error) {
	var c cursor
	switch {
	case r.Closed: // all that has changed since the beginning
		c = cursor{Since: time.Unix(0, 0), Live: true}
	case !r.Since.IsZero():
		c = cursor{Since: r.Since, Live: true}
	}
	at := map[int64]int{}
	var found []exported
	for more := true; more; {
		var page []exported
		err := board.Patiently(ctx, func() (err error) {
			page, c, more, err = b.exportPage(ctx, c)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, e := range page {
			if len(e.PullRequest) > 0 {
				continue
			}
			if n, has := at[e.ID]; has {
				found[n] = e
				continue
			}
			at[e.ID] = len(found)
			if found = append(found, e); len(found) > board.MaxExport {
				return nil, board.ErrMany(b.options.Repo)
			}
		}
	}
	return found, nil
}

// exportPage reads a page of the list, and returns the cursor of the next one.
func (b *Board) exportPage(ctx context.Context, c cursor) (page []exported, next cursor, more bool, err error) {
	const op = "list the issues"
	answer, err := b.call(ctx, op, http.MethodGet, b.listPath(c), nil, "")
	if err != nil {
		return nil, c, true, err
	}
	var raws []json.RawMessage
	if err := json.Unmarshal(answer.Body, &raws); err != nil {
		return nil, c, true, httpcall.Unavailable(b.http.NotAPI(op, answer, false))
	}
	var times []time.Time
	for _, raw := range raws {
		var e exported
		if err := json.Unmarshal(raw, &e); err != nil {
			return nil, c, true, fmt.Errorf("%s: a row of GitHub is no issue: %w", op, err)
		}
		if _, ok := b.issue(e.row); !ok {
			return nil, c, true, fmt.Errorf("%s: row %d of GitHub has no valid number, state or time", op, e.Number)
		}
		times = append(times, e.UpdatedAt.UTC())
		page = append(page, e)
	}
	more = hasNext(answer.Header)
	next, err = c.after(times, more, board.ServerTime(answer, time.Now()).UTC())
	return page, next, more || !c.Live, err
}

// outside reads what belongs to an issue, and converts it.
// listed are its comments as a list of the repository had them, which may lack some.
func (b *Board) outside(
	ctx context.Context, e exported, keys map[int64]string, listed []tracker.Comment,
) (o tracker.Outside, err error) {
	o = tracker.Outside{Key: key(e.ID), Issue: tracker.Issue{Title: board.Cut(e.Title, board.MaxTitle),
		Status:   tracker.StatusOpen,
		Priority: tracker.PriorityNormal, ExternalRef: board.Cut(e.URL, board.MaxTitle),
		CreatedAt: e.CreatedAt, UpdatedAt: e.UpdatedAt}}
	if e.Body != nil {
		o.Description = strings.ReplaceAll(board.Cut(*e.Body, board.MaxBody), "\r\n", "\n")
	}
	if e.User != nil {
		o.CreatedBy = board.Cut(e.User.Login, board.MaxTitle)
	}
	if e.State == "closed" {
		o.Status, o.ClosedAt, o.CloseReason = tracker.StatusClosed, e.ClosedAt, e.Reason
	}
	if len(e.Assignees) > 0 {
		o.Assignee = board.Cut(e.Assignees[0].Login, board.MaxTitle)
	}
	var kind struct {
		Name string `json:"name"`
	}
	_ = json.Unmarshal(e.Type, &kind) // null, or missing
	names := []string{kind.Name}
	for _, l := range e.Labels[:min(len(e.Labels), maxNames)] {
		name := board.Cut(string(l), board.MaxTitle)
		o.Labels, names = append(o.Labels, name), append(names, name)
		if priority().MatchString(strings.ToLower(name)) {
			o.Priority = int(name[1] - '0')
		}
	}
	slices.Sort(o.Labels)
	o.Type = board.TrackerType(names...)
	if o.Comments = listed; e.Comments != len(listed) {
		if o.Comments, err = b.exportComments(ctx, e.Number); err != nil {
			return o, err
		}
	}
	o.Dependencies, err = b.exportLinks(ctx, e, keys)
	return o, err
}

// exportedComment is a comment with what a tracker keeps of it.
type exportedComment struct {
	commentRow
	ID        int64     `json:"id"`
	CreatedAt time.Time `json:"created_at"`
	IssueURL  string    `json:"issue_url"`
}

func (c exportedComment) entry() tracker.Comment {
	text, _, _ := strings.Cut(c.Body, "\n\n"+markerPrefix)
	entry := tracker.Comment{TextID: "github:" + strconv.FormatInt(c.ID, 10), CreatedAt: c.CreatedAt,
		Text: strings.ReplaceAll(board.Cut(text, board.MaxBody), "\r\n", "\n")}
	if c.User != nil {
		entry.Author = board.Cut(c.User.Login, board.MaxTitle)
	}
	return entry
}

// fewLists is the number of issues whose comments are read one by one. For more issues the comments of the whole
// repository are listed, if that takes fewer requests: GitHub permits 5,000 in an hour, fewer than an import may need.
const fewLists = 20

// exportAllComments reads the comments of issues by a list of all comments of the repository, by the number of the
// issue. It returns nil if it is cheaper to read them one by one. The list may lack a comment: when another is deleted,
// the next ones move to pages that were read.
func (b *Board) exportAllComments(ctx context.Context, rows []exported) (map[int64][]tracker.Comment, error) {
	all, lists := map[int64][]tracker.Comment{}, 0
	for _, e := range rows {
		if all[e.Number] = nil; e.Comments > 0 {
			lists++
		}
	}
	if lists <= fewLists {
		return nil, nil
	}
	for page, more := 1, true; more; page++ {
		if page >= lists {
			return nil, nil
		}
		found, h, err := b.commentPage(ctx,
			"/issues/comments?sort=created&direction=asc&per_page=%d&page=%d", pageSize, page)
		if err != nil {
			return nil, err
		}
		if last, ok := lastPage(h); ok && last >= lists {
			return nil, nil
		}
		for _, c := range found {
			number, err := strconv.ParseInt(path.Base(c.IssueURL), 10, 64)
			if entries, wanted := all[number]; wanted && err == nil {
				all[number] = append(entries, c.entry())
			}
		}
		more = hasNext(h)
	}
	return all, nil
}

// commentPage reads a page of a list of comments.
func (b *Board) commentPage(ctx context.Context, format string, args ...any) (
	rows []exportedComment, h http.Header, err error,
) {
	err = board.Patiently(ctx, func() error {
		const op = "read the comments"
		r, err := b.call(ctx, op, http.MethodGet, b.repoPath(format, args...), nil, "")
		if err == nil && json.Unmarshal(r.Body, &rows) != nil {
			err = httpcall.Unavailable(b.http.NotAPI(op, r, false))
		}
		h = r.Header
		return err
	})
	return rows, h, err
}

// lastPage returns the number of the last page of a list, if the header Link names it.
func lastPage(h http.Header) (n int, ok bool) {
	for link := range strings.SplitSeq(h.Get("Link"), ",") {
		address, rel, _ := strings.Cut(link, ";")
		if !strings.Contains(rel, `rel="last"`) {
			continue
		}
		u, err := url.Parse(strings.Trim(address, " <>"))
		if err != nil {
			return 0, false
		}
		n, err = strconv.Atoi(u.Query().Get("page"))
		return n, err == nil
	}
	return 0, false
}

// keptPages is how many of the first and of the last pages of comments an import keeps of an issue with more than twice
// as many.
const keptPages = maxLookup / 2

// exportComments reads the comments of an issue, with one comment in place of those that it leaves out.
func (b *Board) exportComments(ctx context.Context, number int64) (all []tracker.Comment, err error) {
	cut := false
	for page, read, more := 1, 1, true; more; page, read = page+1, read+1 {
		rows, h, err := b.commentPage(ctx, "/issues/%d/comments?per_page=%d&page=%d", number, pageSize, page)
		if errors.Is(gone(err), board.ErrGone) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		for _, c := range rows {
			all = append(all, c.entry())
		}
		more = hasNext(h)
		last, known := lastPage(h)
		switch {
		case !more:
		case read == keptPages && known && last > 2*keptPages:
			all, cut = append(all, leftOut(number, all)), true
			page = last - keptPages
		case read == 2*keptPages && cut: // the list grows while it is read; the next import has the newest
			return all, nil
		case read == 2*keptPages: // it grows, or does not say how long it is
			return append(all, leftOut(number, all)), nil
		}
	}
	return all, nil
}

// leftOut returns the comment that says that comments behind others are left out. It is the same in each import, as
// long as those before it are.
func leftOut(number int64, before []tracker.Comment) tracker.Comment {
	c := tracker.Comment{TextID: fmt.Sprintf("github:left-out-%d", number), Author: "mailroom",
		Text: fmt.Sprintf("Comments are left out here: an import keeps the first and the last %d of an issue.",
			keptPages*pageSize)}
	if n := len(before); n > 0 {
		c.CreatedAt = before[n-1].CreatedAt
	}
	return c
}

// exportLinks returns the dependencies of an issue: what blocks it, and its parent.
func (b *Board) exportLinks(
	ctx context.Context, e exported, keys map[int64]string,
) (all []tracker.Dependency, err error) {
	add := func(on, kind string) {
		all = append(all, tracker.Dependency{On: on, Type: kind, CreatedAt: e.CreatedAt})
	}
	if e.Blocked != nil && e.Blocked.Total > 0 {
		var rows []row
		err := board.Patiently(ctx, func() error {
			return b.get(ctx, "read what blocks the issue",
				b.repoPath("/issues/%d/dependencies/blocked_by?per_page=100", e.Number), &rows)
		})
		if err != nil && !errors.Is(gone(err), board.ErrGone) {
			return nil, err
		}
		for _, r := range rows {
			add(key(r.ID), tracker.DependencyBlocks)
		}
	}
	if e.Parent == "" {
		return all, nil
	}
	number, err := strconv.ParseInt(path.Base(e.Parent), 10, 64)
	here := strings.ToLower("/repos/" + b.options.Repo + "/issues/") // people write names in any case
	if err != nil || !strings.Contains(strings.ToLower(e.Parent), here) {
		return all, nil // of another repository
	}
	if keys[number] == "" { // it has not changed
		var r row
		err := board.Patiently(ctx, func() error {
			return b.get(ctx, "read the parent", b.repoPath("/issues/%d", number), &r)
		})
		if err != nil && !errors.Is(gone(err), board.ErrGone) {
			return nil, err
		}
		keys[number] = key(r.ID)
	}
	add(keys[number], tracker.DependencyParentChild)
	return all, nil
}
