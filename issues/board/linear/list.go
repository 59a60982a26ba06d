package linear

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"mailroom/channel/httpcall"
	"mailroom/issues/board"
)

// nodes is a page of a list.
type nodes[T any] struct {
	Nodes []T `json:"nodes"`
	Page  struct {
		More bool   `json:"hasNextPage"`
		End  string `json:"endCursor"`
	} `json:"pageInfo"`
}

type state struct {
	ID       string  `json:"id"`
	Name     string  `json:"name"`
	Type     string  `json:"type"` // triage, backlog, unstarted, started, completed, canceled or duplicate
	Position float64 `json:"position"`
}

type reference struct {
	ID string `json:"id"`
}

// row is an issue of an answer.
type row struct {
	ID          string     `json:"id"`
	Identifier  string     `json:"identifier"`
	Title       string     `json:"title"`
	Description string     `json:"description"`
	URL         string     `json:"url"`
	Priority    float64    `json:"priority"`
	CreatedAt   time.Time  `json:"createdAt"`
	UpdatedAt   time.Time  `json:"updatedAt"`
	ArchivedAt  *time.Time `json:"archivedAt"`
	Trashed     bool       `json:"trashed"`
	State       state      `json:"state"`
	Team        struct {
		ID  string `json:"id"`
		Key string `json:"key"`
	} `json:"team"`
	Project *struct {
		SlugID string `json:"slugId"`
	} `json:"project"`
	Assignee *reference `json:"assignee"`
	Delegate *reference `json:"delegate"`
	Labels   nodes[struct {
		Name string `json:"name"`
	}] `json:"labels"`
	// Inverse are the relations in which this issue is the related one. Only a single issue is read with them.
	Inverse nodes[struct {
		Type  string `json:"type"`
		Issue struct {
			Identifier string `json:"identifier"`
			Trashed    bool   `json:"trashed"`
			State      state  `json:"state"`
		} `json:"issue"`
	}] `json:"inverseRelations"`
}

// Linear counts the complexity of a query by the sizes of its pages, not by what they contain, and 250,000 points an
// hour are the least of its limits. So a poll reads few labels: it costs about 650 points.
// https://linear.app/developers/rate-limiting
const (
	pageSize   = 20
	fewLabels  = 20
	manyLabels = 50
	// maxRelations bounds the relations of an issue that are read.
	maxRelations = 50
)

// HintPause is the least time between two polls that webhooks start. A busy team has an event each second, and so many
// polls would use up the points of an hour in six minutes.
const HintPause = 15 * time.Second

// fields returns the fields of an issue that all queries read.
func fields(labels int) string {
	return fmt.Sprintf(`id identifier title description url priority createdAt updatedAt archivedAt trashed
	state { id name type position } team { id key } project { slugId } assignee { id name } delegate { id }
	labels(first: %d) { nodes { name } pageInfo { hasNextPage } }`, labels)
}

const maxName = 128 // bytes of an id or identifier

// issue converts a row. Its ID is the id of Linear, because an issue that moves to another team gets another
// identifier. ok is false if the row is no issue.
func (b *client) issue(r row) (it board.Issue, ok bool) {
	if !isName(r.ID) || !isName(r.Identifier) || r.UpdatedAt.IsZero() || r.State.Type == "" {
		return it, false
	}
	it = board.Issue{ID: r.ID, Native: r.ID, Name: r.Identifier, Title: board.Cut(r.Title, board.MaxTitle),
		Body: board.Cut(r.Description, board.MaxBody), URL: board.Cut(r.URL, board.MaxTitle),
		State: b.stateOf(r), Status: board.Cut(r.State.Name, maxName),
		Priority:  board.DefaultPriority,
		CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC()}
	if p := int(r.Priority); p >= 1 && p <= 4 { // 1 is urgent, 0 is no priority
		it.Priority = p - 1
	}
	for _, l := range r.Labels.Nodes[:min(len(r.Labels.Nodes), manyLabels)] {
		it.Labels = append(it.Labels, strings.ToLower(board.Cut(l.Name, board.MaxTitle)))
	}
	switch { // an issue that is delegated keeps its assignee, who asked for the work
	case r.Delegate != nil:
		it.Assignees = []string{r.Delegate.ID}
	case r.Assignee != nil:
		it.Assignees = []string{r.Assignee.ID}
	}
	for _, in := range r.Inverse.Nodes[:min(len(r.Inverse.Nodes), maxRelations)] {
		if in.Type == "blocks" && !in.Issue.Trashed && !isClosed(in.Issue.State.Type) {
			it.Blocked = append(it.Blocked, board.Cut(in.Issue.Identifier, maxName))
		}
	}
	return it, true
}

// isName reports whether s can be an id or identifier.
func isName(s string) bool {
	return s != "" && len(s) <= maxName && !strings.ContainsFunc(s, func(r rune) bool {
		return r != '-' && r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}

func isClosed(kind string) bool { return slices.Contains(closedTypes(), kind) }

// closedTypes are the types of states in which an issue is done with.
func closedTypes() []string { return []string{"completed", "canceled", "duplicate"} }

// stateOf returns what the state of an issue means for the feed. In a state that is neither active nor started, such as
// the backlog, a person decides.
func (b *client) stateOf(r row) board.State {
	switch {
	case isClosed(r.State.Type), r.ArchivedAt != nil:
		return board.StateClosed
	case b.options.Done != "" && strings.EqualFold(r.State.Name, b.options.Done):
		return board.StateDone
	case b.isActive(r.State):
		return board.StateOpen
	case r.State.Type == "started":
		return board.StateWorking
	}
	return board.StateBlocked
}

// isActive reports whether an issue in a state may start. A started one may not, because its claim looks the same.
func (b *client) isActive(s state) bool {
	if len(b.options.Active) == 0 {
		return s.Type == "unstarted"
	}
	return s.Type != "started" && slices.ContainsFunc(b.options.Active, func(name string) bool {
		return strings.EqualFold(name, s.Name)
	})
}

const (
	// overlap is how far a poll looks back, for changes that became visible late.
	overlap = time.Minute
	// maxUnread bounds the issues that a poll reads again because a field of them could not be read.
	maxUnread = 20
)

// cursor is where a pass over the changes is. A pass reads all pages after one time, in whatever order they come; only
// its end moves that time.
type cursor struct {
	Since time.Time `json:"since,omitzero"` // changes from this time on; zero: all open issues
	After string    `json:"after,omitempty"`
	Begun time.Time `json:"begun,omitzero"` // of the pass, by the clock of the server
	// Unread are ids of issues that the list did not show in full. The next call reads them one by one.
	Unread []string `json:"unread,omitempty"`
}

// next returns the time from which the next pass reads. It never moves back.
func (c cursor) next() time.Time {
	if next := c.Begun.Add(-overlap); next.After(c.Since) {
		return next
	}
	return c.Since
}

// begun returns when a pass began whose first page has these rows, by the clock of the server. Without the header Date
// it is the newest change on the page, zero for a page without issues: what changes after the page was read is newer.
// The clock of this machine is of no use, because it may be ahead.
func (b *client) begun(rows []row) time.Time {
	at := b.limits.Answered()
	if at.IsZero() {
		for _, r := range rows {
			if r.UpdatedAt.After(at) {
				at = r.UpdatedAt
			}
		}
	}
	return at
}

// Changes implements [board.Board].
func (b *client) Changes(ctx context.Context, at string) (page board.Changes, err error) {
	var c cursor
	if at != "" {
		if err := json.Unmarshal([]byte(at), &c); err != nil {
			return page, httpcall.Permanent(fmt.Errorf("invalid cursor %q", at))
		}
	}
	var rows []row
	if len(c.Unread) > 0 {
		if rows, c.Unread, err = b.readAgain(ctx, c.Unread); err != nil {
			return page, err
		}
		page.Invalid = len(c.Unread)
	}
	list, unread, err := b.page(ctx, c)
	if refusal, ok := errors.AsType[*httpcall.Refusal](err); ok && c.After != "" &&
		(refusal.Code == codeInvalid || refusal.Code == codeNotFound) { // the issue at the end of the last page is gone
		c.After = ""
		list, unread, err = b.page(ctx, c)
	}
	if err != nil {
		return page, err
	}
	if c.After == "" && c.Begun.IsZero() {
		c.Begun = b.begun(list.Nodes)
	}
	for _, id := range unread {
		if !slices.Contains(c.Unread, id) {
			c.Unread = append(c.Unread, id)
		}
	}
	if len(c.Unread) > maxUnread {
		return page, httpcall.Unavailable(fmt.Errorf("list issues: Linear cannot read %d of them", len(c.Unread)))
	}
	for _, r := range append(rows, list.Nodes...) {
		if it, ok := b.issue(r); ok {
			page.Issues = append(page.Issues, it)
		} else {
			page.Invalid++
		}
	}
	slices.SortStableFunc(page.Issues, func(a, b board.Issue) int { return a.UpdatedAt.Compare(b.UpdatedAt) })
	if page.More = list.Page.More && list.Page.End != "" && list.Page.End != c.After; page.More {
		c.After = list.Page.End
	} else {
		// What changed while the pass went on may be on a page that was read before.
		c = cursor{Since: c.next(), Unread: c.Unread}
	}
	raw, err := json.Marshal(c)
	page.Next = string(raw)
	return page, err
}

// readAgain reads issues one by one, and returns the ids of those that still cannot be read.
func (b *client) readAgain(ctx context.Context, ids []string) (rows []row, unread []string, err error) {
	for _, id := range ids {
		r, err := b.row(ctx, id)
		_, isPart := errors.AsType[*partError](err)
		switch {
		case errors.Is(err, board.ErrGone):
		case isPart:
			unread = append(unread, id)
		case err != nil:
			return nil, nil, err
		default:
			rows = append(rows, r)
		}
	}
	return rows, unread, nil
}

// page reads a page of the list. unread are the ids of issues that it leaves out, because they have more labels than a
// list shows or because a field of them could not be read.
func (b *client) page(ctx context.Context, c cursor) (list nodes[row], unread []string, err error) {
	variables := map[string]any{"filter": b.filter(c), "first": pageSize}
	if c.After != "" {
		variables["after"] = c.After
	}
	var answer struct {
		Issues nodes[*row] `json:"issues"`
	}
	err = b.query(ctx, "list issues", `query($filter: IssueFilter, $first: Int, $after: String) {
		issues(filter: $filter, first: $first, after: $after, orderBy: updatedAt, includeArchived: true) {
			nodes { `+fields(fewLabels)+` } pageInfo { hasNextPage endCursor }
		}
	}`, variables, &answer)
	if part, ok := errors.AsType[*partError](err); ok && json.Unmarshal(part.data, &answer) == nil {
		for _, p := range part.problems {
			n, isRow := rowOf(p.Path)
			if !isRow || n >= len(answer.Issues.Nodes) || answer.Issues.Nodes[n] == nil {
				return list, nil, err
			}
			unread = append(unread, answer.Issues.Nodes[n].ID)
		}
		err = nil
	}
	list.Page = answer.Issues.Page
	for _, r := range answer.Issues.Nodes {
		switch {
		case r == nil:
			list.Nodes = append(list.Nodes, row{}) // no issue
		case r.Labels.Page.More && !slices.Contains(unread, r.ID):
			unread = append(unread, r.ID)
		case !slices.Contains(unread, r.ID):
			list.Nodes = append(list.Nodes, *r)
		}
	}
	return list, unread, err
}

// rowOf returns the index of the issue that the path of an error leads into.
func rowOf(path []any) (n int, ok bool) {
	const depth = 3 // issues, nodes, index
	if len(path) < depth || path[0] != "issues" || path[1] != "nodes" {
		return 0, false
	}
	at, ok := path[2].(float64)
	return int(at), ok && at >= 0 && at < pageSize
}

// filter returns what a pass lists. The labels are in the first list only: an issue that loses its labels is a change.
func (b *client) filter(c cursor) map[string]any {
	filter := map[string]any{}
	if b.options.Project != "" {
		filter["project"] = b.projectFilter()
	}
	if b.options.Team != "" {
		filter["team"] = b.teamFilter()
	}
	if !c.Since.IsZero() {
		filter["updatedAt"] = map[string]any{"gte": c.Since.UTC().Format(time.RFC3339Nano)}
		return filter
	}
	filter["state"] = map[string]any{"type": map[string]any{"nin": closedTypes()}}
	var labels []any
	for _, l := range b.options.Labels {
		labels = append(labels, map[string]any{"labels": map[string]any{
			"some": map[string]any{"name": map[string]any{"eqIgnoreCase": l}}}})
	}
	if len(labels) > 0 {
		filter["and"] = labels
	}
	return filter
}

// row reads an issue of this project or team. The error wraps [board.ErrGone] for any other.
func (b *client) row(ctx context.Context, id string) (r row, err error) {
	var answer struct {
		Issue *row `json:"issue"`
	}
	err = b.query(ctx, "read issue "+id, fmt.Sprintf(`query($id: String!) {
		issue(id: $id) { %s
			inverseRelations(first: %d) { nodes { type issue { identifier trashed state { type } } } }
		}
	}`, fields(manyLabels), maxRelations), map[string]any{"id": id}, &answer)
	switch refusal, refused := errors.AsType[*httpcall.Refusal](err); {
	case refused && refusal.Code == codeNotFound, err == nil && answer.Issue == nil:
		return r, b.gone(ctx)
	case err != nil:
		return r, err
	case !b.isHere(*answer.Issue) || answer.Issue.ID != id:
		return r, board.ErrGone
	}
	return *answer.Issue, nil
}

// gone returns [board.ErrGone], or the error of a project or team that the token may not read just now: no issue of it
// is gone.
func (b *client) gone(ctx context.Context) error {
	if _, err := b.Account(ctx); err != nil {
		return httpcall.Unavailable(err)
	}
	return board.ErrGone
}
