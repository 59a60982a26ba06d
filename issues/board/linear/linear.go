// Package linear is the [board.Board] of the issues of a project or a team of Linear, over its GraphQL API.
//
// https://linear.app/developers/graphql
package linear

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"mailroom/channel"
	"mailroom/channel/httpcall"
	"mailroom/issues/board"
)

// Kind is the name of this kind of board.
const Kind = "linear"

// Options configure a board. Base, Token, and Project or Team are required.
type Options struct {
	Base    *url.URL // of the API, without /graphql, such as https://api.linear.app
	Token   string   // a personal key (lin_api_…), or a token of OAuth
	Project string   // the id at the end of the project's address, with or without the name before it
	Team    string   // key of a team, such as ENG
	Labels  []string // the first list has only issues with all of them
	// Active names the states in which an issue may start; by default all of type unstarted.
	Active []string
	// Done names the state of a finished issue that a person closes; by default the issue stays where it is.
	Done string
}

// client calls one project or team.
type client struct {
	options Options
	http    *httpcall.Client
	limits  *board.Limits

	// Owned by mu.
	mu     sync.Mutex
	viewer viewer
	states map[string]teamStates // by id of the team
}

// viewer is the user of the token. An app can be the delegate of issues.
type viewer struct {
	ID  string `json:"id"`
	App bool   `json:"app"`
}

// teamStates are the states of a team.
type teamStates struct {
	all  []state
	read time.Time
}

const (
	// maxAnswer bounds an answer in bytes. A page has at most 20 issues, each with a text of 250,000 characters.
	maxAnswer = 32 << 20
	// statesAge is how long the states of a team are not read again.
	statesAge = 10 * time.Minute
)

// New returns a board. It makes no call.
func New(o Options) (board.Board, error) {
	switch {
	case o.Token == "":
		return nil, errors.New("missing token")
	case o.Project == "" && o.Team == "":
		return nil, errors.New("missing project or team")
	}
	o.Team = strings.ToUpper(o.Team) // as Linear has them
	calls := httpcall.New(httpcall.Options{
		Platform: "Linear", API: "the API of Linear", Base: o.Base, Secrets: []string{o.Token}, MaxResponse: maxAnswer,
	})
	return &client{options: o, limits: newLimits(), states: map[string]teamStates{}, http: calls}, nil
}

// Close implements [board.Board].
func (b *client) Close() { b.http.CloseIdleConnections() }

// Status implements [board.Board].
func (b *client) Status() string { return statusOf(b.limits) }

// Account implements [board.Board]. It returns the id of the user, by which issues name their assignees and delegates.
// The project or team is read too, so that a wrong name is known at once.
func (b *client) Account(ctx context.Context) (string, error) {
	var answer struct {
		Viewer   viewer `json:"viewer"`
		Projects nodes[struct {
			ID string `json:"id"`
		}] `json:"projects"`
		Teams nodes[struct {
			ID string `json:"id"`
		}] `json:"teams"`
	}
	err := b.query(ctx, "read the account", `query($project: ProjectFilter, $team: TeamFilter) {
		viewer { id app }
		projects(first: 1, filter: $project) { nodes { id } }
		teams(first: 1, filter: $team) { nodes { id } }
	}`, map[string]any{"project": b.projectFilter(), "team": b.teamFilter()}, &answer)
	switch {
	case err != nil:
		return "", err
	case answer.Viewer.ID == "":
		return "", httpcall.Unavailable(errors.New("linear does not say whose token it is"))
	case b.options.Project != "" && len(answer.Projects.Nodes) == 0:
		return "", channel.Fatal(fmt.Errorf("the project %q does not exist, or the token may not read it", b.options.Project))
	case b.options.Team != "" && len(answer.Teams.Nodes) == 0:
		return "", channel.Fatal(fmt.Errorf("the team %q does not exist, or the token may not read it", b.options.Team))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.viewer = answer.Viewer
	return answer.Viewer.ID, nil
}

// slugs returns what the id of the project may be: people copy it from an address, with the name before it.
func (b *client) slugs() []string {
	whole := b.options.Project
	found := []string{whole}
	if at := strings.LastIndexByte(whole, '-'); at >= 0 {
		found = append(found, whole[at+1:])
	}
	return found
}

func (b *client) projectFilter() map[string]any {
	if b.options.Project == "" {
		return map[string]any{}
	}
	return map[string]any{"slugId": map[string]any{"in": b.slugs()}}
}

func (b *client) teamFilter() map[string]any {
	if b.options.Team == "" {
		return map[string]any{}
	}
	return map[string]any{"key": map[string]any{"eq": b.options.Team}}
}

// isHere reports whether an issue belongs to the project and the team.
func (b *client) isHere(r row) bool {
	return !r.Trashed && (b.options.Team == "" || r.Team.Key == b.options.Team) &&
		(b.options.Project == "" || r.Project != nil && slices.Contains(b.slugs(), r.Project.SlugID))
}

// statesOf returns the states of a team in the order of the board.
func (b *client) statesOf(ctx context.Context, team string) ([]state, error) {
	b.mu.Lock()
	known := b.states[team]
	b.mu.Unlock()
	if time.Since(known.read) < statesAge {
		return known.all, nil
	}
	var answer struct {
		Team struct {
			States nodes[state] `json:"states"`
		} `json:"team"`
	}
	err := b.query(ctx, "read the states", `query($id: String!) {
		team(id: $id) { states(first: 100) { nodes { id name type position } } }
	}`, map[string]any{"id": team}, &answer)
	if err != nil {
		return nil, err
	}
	all := answer.Team.States.Nodes
	slices.SortStableFunc(all, func(a, b state) int {
		switch {
		case a.Position < b.Position:
			return -1
		case a.Position > b.Position:
			return 1
		}
		return 0
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	b.states[team] = teamStates{all, time.Now()}
	return all, nil
}

// forget makes the next call read the states of a team, unless they were read after a time. It reports whether it did.
func (b *client) forget(team string, after time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.states[team].read.After(after) {
		return false
	}
	delete(b.states, team)
	return true
}

// Issue implements [board.Board].
func (b *client) Issue(ctx context.Context, id string) (board.Issue, error) {
	r, err := b.row(ctx, id)
	if err != nil {
		return board.Issue{}, err
	}
	it, ok := b.issue(r)
	if !ok {
		return it, httpcall.Unavailable(fmt.Errorf("read issue %s: the answer of Linear is no issue", id))
	}
	return it, nil
}
