package linear

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"mailroom/internal/lazyregexp"
	"mailroom/internal/setting"
	"mailroom/issues/board"
	"mailroom/issues/tracker"
)

// apiAddress is the address of the API of Linear.
const apiAddress = "https://api.linear.app"

// exported is an issue with what a tracker keeps of it.
type exported struct {
	row
	CompletedAt time.Time           `json:"completedAt"`
	CanceledAt  time.Time           `json:"canceledAt"`
	Creator     *person             `json:"creator"`
	Assignee    *person             `json:"assignee"`
	Parent      *reference          `json:"parent"`
	Comments    nodes[remark]       `json:"comments"`
	Inverse     nodes[exportedLink] `json:"inverseRelations"`
}

type person struct {
	Name string `json:"name"`
}

type remark struct {
	ID        string    `json:"id"`
	Body      string    `json:"body"`
	CreatedAt time.Time `json:"createdAt"`
	User      *person   `json:"user"`
}

type exportedLink struct {
	Type  string    `json:"type"`
	Issue reference `json:"issue"`
}

// A page of an export has few comments and relations of each issue, because Linear counts the sizes that a query asks
// for. An issue that has more is read alone.
const (
	fewRemarks  = 5
	manyRemarks = 50
	// maxRemarkPages bounds the pages of comments of one issue.
	maxRemarkPages = 40
)

func exportFields(labels, remarks int) string {
	return fields(labels) + fmt.Sprintf(` completedAt canceledAt creator { name } parent { id }
	inverseRelations(first: %d) { nodes { type issue { id } } pageInfo { hasNextPage } }
	comments(first: %d) { nodes { id body createdAt user { name } } pageInfo { hasNextPage endCursor } }`,
		remarks, remarks)
}

// Export reads the issues of a team or a project for a tracker, with their comments, parents and dependencies. r.Place
// is the key of a team, such as ENG, the id of a project, or the address of one of them.
func Export(ctx context.Context, r tracker.Remote) ([]tracker.Outside, error) {
	o, err := placeOf(r)
	if err != nil {
		return nil, err
	}
	opened, err := New(o)
	if err != nil {
		return nil, err
	}
	b := opened.(*client) // made by New
	defer b.Close()
	if err := board.Patiently(ctx, func() error { _, err := b.Account(ctx); return err }); err != nil {
		return nil, err
	}
	rows, err := b.exportRows(ctx, r)
	if err != nil {
		return nil, err
	}
	var all []tracker.Outside
	for _, e := range rows {
		if e.Trashed {
			continue
		}
		if seen, has := r.Seen[key(e.ID)]; has && seen.Equal(e.UpdatedAt) {
			continue
		}
		if e, err = b.complete(ctx, e); err != nil {
			return nil, err
		}
		all = append(all, b.outside(e))
	}
	return all, nil
}

func key(id string) string { return "linear:" + id }

// teamKey matches the key of a team. A longer word is the id of a project.
var teamKey = lazyregexp.New(`^[A-Za-z][A-Za-z0-9]{0,6}$`)

// placeOf returns the options for a place.
func placeOf(r tracker.Remote) (o Options, err error) {
	o.Token = r.Token
	if o.Base, err = setting.ParseBaseURL(cmp.Or(r.API, apiAddress), apiAddress); err != nil {
		return o, err
	}
	place := strings.TrimSuffix(r.Place, "/")
	if u, err := url.Parse(place); err == nil && u.Scheme == "https" {
		parts := strings.Split(strings.Trim(u.Path, "/"), "/")
		const kind, name = 1, 2 // places in /acme/project/roof-b1c2
		if len(parts) <= name || parts[kind] != "team" && parts[kind] != "project" {
			return o, fmt.Errorf("the address %q names no team or project", r.Place)
		}
		if parts[kind] == "team" {
			o.Team = parts[name]
			return o, nil
		}
		place = parts[name]
	}
	if teamKey().MatchString(place) {
		o.Team = place
	} else {
		o.Project = place
	}
	return o, nil
}

// exportRows lists the issues of a place, each once. What changes while the list is read is read again.
func (b *client) exportRows(ctx context.Context, r tracker.Remote) ([]exported, error) {
	c := cursor{Since: r.Since}
	if r.Closed {
		c.Since = time.Unix(0, 0)
	}
	at := map[string]int{}
	var found []exported
	for passes := 0; passes < 2; {
		var list nodes[exported]
		err := board.Patiently(ctx, func() (err error) {
			list, err = b.exportPage(ctx, c)
			return err
		})
		if err != nil {
			return nil, err
		}
		if c.After == "" && c.Begun.IsZero() {
			var rows []row
			for _, e := range list.Nodes {
				rows = append(rows, e.row)
			}
			c.Begun = b.begun(rows)
		}
		for _, e := range list.Nodes {
			if _, ok := b.issue(e.row); !ok {
				return nil, errors.New("list issues: a row of Linear is no issue")
			}
			if n, has := at[e.ID]; has {
				found[n] = e
				continue
			}
			at[e.ID] = len(found)
			if found = append(found, e); len(found) > board.MaxExport {
				return nil, board.ErrMany(r.Place)
			}
		}
		if list.Page.More && list.Page.End != "" && list.Page.End != c.After {
			c.After = list.Page.End
			continue
		}
		c = cursor{Since: c.next()}
		passes++
	}
	return found, nil
}

func (b *client) exportPage(ctx context.Context, c cursor) (nodes[exported], error) {
	variables := map[string]any{"filter": b.filter(c), "first": pageSize}
	if c.After != "" {
		variables["after"] = c.After
	}
	var answer struct {
		Issues nodes[exported] `json:"issues"`
	}
	err := b.query(ctx, "list issues", `query($filter: IssueFilter, $first: Int, $after: String) {
		issues(filter: $filter, first: $first, after: $after, orderBy: updatedAt, includeArchived: true) {
			nodes { `+exportFields(fewLabels, fewRemarks)+` } pageInfo { hasNextPage endCursor }
		}
	}`, variables, &answer)
	return answer.Issues, err
}

// complete reads the comments, relations and labels of an issue that a list does not show.
func (b *client) complete(ctx context.Context, e exported) (exported, error) {
	if !e.Comments.Page.More && !e.Inverse.Page.More && !e.Labels.Page.More {
		return e, nil
	}
	var all []remark
	fields := strings.Replace(exportFields(manyLabels, manyRemarks), "comments(", "comments(after: $after, ", 1)
	for page, after := 0, any(nil); ; page++ {
		var answer struct {
			Issue *exported `json:"issue"`
		}
		err := board.Patiently(ctx, func() error {
			return b.query(ctx, "read issue "+e.Identifier, `query($id: String!, $after: String) {
				issue(id: $id) { `+fields+` }
			}`, map[string]any{"id": e.ID, "after": after}, &answer)
		})
		switch {
		case err != nil:
			return e, err
		case answer.Issue == nil || answer.Issue.ID != e.ID:
			return e, fmt.Errorf("read issue %s: the answer of Linear is another issue", e.Identifier)
		case page == maxRemarkPages:
			return e, fmt.Errorf("issue %s has more than %d comments", e.Identifier, maxRemarkPages*manyRemarks)
		}
		e = *answer.Issue
		all = append(all, e.Comments.Nodes...)
		if !e.Comments.Page.More || e.Comments.Page.End == "" {
			e.Comments.Nodes = all
			return e, nil
		}
		after = e.Comments.Page.End
	}
}

// outside converts an issue.
func (b *client) outside(e exported) tracker.Outside {
	it, _ := b.issue(e.row) // checked when it was listed
	o := tracker.Outside{Key: key(e.ID), Issue: tracker.Issue{Title: it.Title, Description: it.Body,
		Status: tracker.StatusOpen, Priority: it.Priority, ExternalRef: it.URL, CreatedAt: it.CreatedAt,
		UpdatedAt: it.UpdatedAt}}
	switch {
	case it.State == board.StateClosed:
		o.Status, o.ClosedAt, o.CloseReason = tracker.StatusClosed, e.closedAt().UTC(), board.Cut(e.State.Name, maxName)
	case e.State.Type == "started":
		o.Status = tracker.StatusInProgress
	case e.State.Type == "backlog" || e.State.Type == "triage":
		o.Status = tracker.StatusDeferred
	}
	if e.Creator != nil {
		o.CreatedBy = board.Cut(e.Creator.Name, board.MaxTitle)
	}
	if e.Assignee != nil {
		o.Assignee = board.Cut(e.Assignee.Name, board.MaxTitle)
	}
	for _, l := range e.Labels.Nodes[:min(len(e.Labels.Nodes), manyLabels)] {
		o.Labels = append(o.Labels, board.Cut(l.Name, board.MaxTitle))
	}
	slices.Sort(o.Labels)
	o.Type = board.TrackerType(o.Labels...)
	for _, c := range e.Comments.Nodes {
		entry := tracker.Comment{TextID: key(c.ID), Text: board.Cut(c.Body, board.MaxBody),
			CreatedAt: c.CreatedAt.UTC()}
		if c.User != nil {
			entry.Author = board.Cut(c.User.Name, board.MaxTitle)
		}
		o.Comments = append(o.Comments, entry)
	}
	slices.SortStableFunc(o.Comments, func(a, b tracker.Comment) int { return a.CreatedAt.Compare(b.CreatedAt) })
	add := func(on, kind string) {
		o.Dependencies = append(o.Dependencies, tracker.Dependency{On: key(on), Type: kind, CreatedAt: it.CreatedAt})
	}
	for _, in := range e.Inverse.Nodes {
		switch in.Type {
		case "blocks":
			add(in.Issue.ID, tracker.DependencyBlocks)
		case "related":
			add(in.Issue.ID, "related")
		}
	}
	if e.Parent != nil {
		add(e.Parent.ID, tracker.DependencyParentChild)
	}
	return o
}

// closedAt returns when a closed issue was completed, canceled or archived.
func (e exported) closedAt() time.Time {
	for _, at := range []time.Time{e.CompletedAt, e.CanceledAt} {
		if !at.IsZero() {
			return at
		}
	}
	if e.ArchivedAt != nil {
		return *e.ArchivedAt
	}
	return e.UpdatedAt
}
