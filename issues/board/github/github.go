// Package github is the [board.Board] of the issues of a repository of GitHub, over its REST API.
//
// https://docs.github.com/en/rest/issues
package github

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"mailroom/channel"
	"mailroom/channel/httpcall"
	"mailroom/issues/board"
)

// Kind is the name of this kind of board.
const Kind = "github"

// Options configure a board. Base, Repo and Token are required.
type Options struct {
	Base   *url.URL // of the API, such as https://api.github.com, or https://HOST/api/v3
	Repo   string   // "owner/name"
	Token  string
	Labels []string // the first list has only issues with all of them
	// Marks is the prefix of the labels that show claims, such as "mailroom-".
	Marks string
	// WritePause is the least time between two writes. GitHub asks for a second:
	// https://docs.github.com/en/rest/using-the-rest-api/best-practices-for-using-the-rest-api
	WritePause time.Duration
}

// Board calls one repository.
type Board struct {
	options Options
	http    *httpcall.Client
	limits  *limits
	poll    conditional
}

// maxAnswer bounds an answer in bytes. A page has at most 100 issues, each with a text of 65,536 characters, and JSON
// writes a character with up to 6 bytes. A bound below that would let strangers stop a board by long issues.
const maxAnswer = 48 << 20

// New returns a board. It makes no call.
func New(o Options) (*Board, error) {
	if err := checkRepository(o.Repo); err != nil {
		return nil, err
	}
	if o.Token == "" {
		return nil, errors.New("missing token")
	}
	return &Board{options: o, limits: newLimits(o.WritePause, maxQueue), http: httpcall.New(httpcall.Options{
		Platform: "GitHub", API: "the API of GitHub", Base: o.Base, Secrets: []string{o.Token}, MaxResponse: maxAnswer,
	})}, nil
}

// checkRepository returns an error if a name, which becomes a part of paths, is not owner/name.
func checkRepository(repo string) error {
	owner, name, ok := strings.Cut(repo, "/")
	if !ok || owner == "" || name == "" || strings.ContainsAny(repo, "?#%\\ ") || strings.Contains(name, "/") ||
		slices.Contains([]string{".", ".."}, owner) || slices.Contains([]string{".", ".."}, name) {
		return fmt.Errorf("invalid repository %q; use owner/name", repo)
	}
	return nil
}

// Close implements [board.Board].
func (b *Board) Close() { b.http.CloseIdleConnections() }

// Status implements [board.Board].
func (b *Board) Status() string { return b.limits.String() }

// Account implements [board.Board]. An app has no user, so the account of its token is "". The repository is read too,
// so that a wrong name or a missing right is known at once.
func (b *Board) Account(ctx context.Context) (string, error) {
	repo, err := b.repository(ctx)
	if err != nil {
		refusal, refused := errors.AsType[*httpcall.Refusal](err)
		switch {
		case refused && refusal.Code == codeMoved:
			return "", channel.Fatal(fmt.Errorf("the repository %s was renamed or moved; set its present name: %w",
				b.options.Repo, refusal))
		case refused && refusal.Status == http.StatusNotFound:
			return "", channel.Fatal(fmt.Errorf("the repository %s does not exist, or the token may not read it: %w",
				b.options.Repo, refusal))
		}
		return "", err
	}
	if repo.HasIssues != nil && !*repo.HasIssues {
		return "", channel.Fatal(fmt.Errorf("issues are switched off in the repository %s", b.options.Repo))
	}
	var user struct {
		Login string `json:"login"`
	}
	err = b.get(ctx, "read the account", "/user", &user)
	if refusal, refused := errors.AsType[*httpcall.Refusal](err); refused && refusal.RetryAfter == 0 &&
		(refusal.Status == http.StatusForbidden || refusal.Status == http.StatusNotFound) {
		return "", nil
	}
	return user.Login, err
}

type repository struct {
	HasIssues *bool `json:"has_issues"`
}

func (b *Board) repository(ctx context.Context) (r repository, err error) {
	return r, b.get(ctx, "read the repository", "/repos/"+b.options.Repo, &r)
}

// repoPath returns a path below the repository.
func (b *Board) repoPath(format string, args ...any) string {
	return "/repos/" + b.options.Repo + fmt.Sprintf(format, args...)
}

// Issue implements [board.Board].
func (b *Board) Issue(ctx context.Context, id string) (it board.Issue, err error) {
	number, err := strconv.ParseInt(id, 10, 64)
	if err != nil || number <= 0 {
		return it, board.ErrGone
	}
	var r row
	if err := b.get(ctx, "read issue "+id, b.repoPath("/issues/%d", number), &r); err != nil {
		return it, b.goneHere(ctx, err)
	}
	if len(r.PullRequest) > 0 {
		return it, board.ErrGone
	}
	it, ok := b.issue(r)
	if !ok {
		return it, httpcall.Unavailable(&httpcall.TransportError{Op: "read issue " + id,
			Reason: "the answer of GitHub is no issue"})
	}
	if it.State != board.StateClosed && (r.Dependencies == nil || r.Dependencies.BlockedBy > 0) {
		it.Blocked, err = b.blockers(ctx, number)
	}
	return it, err
}

// gone returns [board.ErrGone] for an issue that GitHub does not have here any more.
func gone(err error) error {
	if refusal, ok := errors.AsType[*httpcall.Refusal](err); ok && (refusal.Status == http.StatusNotFound ||
		refusal.Status == http.StatusGone || refusal.Code == codeMoved) {
		return fmt.Errorf("%w: %w", board.ErrGone, err)
	}
	return err
}

// goneHere is gone for an issue of a repository that can be read. In one that was renamed, or that the token may not
// read just now, no issue is gone.
func (b *Board) goneHere(ctx context.Context, err error) error {
	if err = gone(err); errors.Is(err, board.ErrGone) {
		if _, lost := b.repository(ctx); lost != nil {
			return lost
		}
	}
	return err
}

// blockers returns the open issues that an issue waits for. A server without dependencies answers 404.
func (b *Board) blockers(ctx context.Context, number int64) (names []string, err error) {
	var rows []row
	err = b.get(ctx, "read what blocks the issue",
		b.repoPath("/issues/%d/dependencies/blocked_by?per_page=100", number), &rows)
	if errors.Is(gone(err), board.ErrGone) {
		return nil, nil
	}
	for _, r := range rows {
		if r.State != "closed" {
			names = append(names, "#"+strconv.FormatInt(r.Number, 10))
		}
	}
	return names, err
}

// Mark implements [board.Board]: labels show the state of a claim.
func (b *Board) Mark(ctx context.Context, it board.Issue, m board.Mark) (board.Issue, error) {
	if m == board.MarkClosed {
		if _, err := b.write(ctx, "close the issue", http.MethodPatch, b.repoPath("/issues/%s", it.ID),
			map[string]string{"state": "closed", "state_reason": "completed"}); err != nil {
			return it, err
		}
	}
	add := ""
	for mark, state := range map[board.Mark]board.State{board.MarkWorking: board.StateWorking,
		board.MarkDone: board.StateDone, board.MarkBlocked: board.StateBlocked} {
		if m == mark {
			add = b.label(state)
		}
	}
	if add != "" && !slices.Contains(it.Labels, add) {
		if _, err := b.write(ctx, "label the issue", http.MethodPost, b.repoPath("/issues/%s/labels", it.ID),
			map[string][]string{"labels": {add}}); err != nil {
			return it, err
		}
	}
	for _, label := range b.marks() {
		if label == add || !slices.Contains(it.Labels, label) || m == board.MarkNone && label != b.label(board.StateWorking) {
			continue
		}
		_, err := b.write(ctx, "remove a label", http.MethodDelete,
			b.repoPath("/issues/%s/labels/%s", it.ID, url.PathEscape(label)), nil)
		if refusal, ok := errors.AsType[*httpcall.Refusal](err); ok && refusal.Status == http.StatusNotFound {
			err = nil // a person removed it
		}
		if err != nil {
			return it, err
		}
	}
	after, err := b.Issue(ctx, it.ID)
	if errors.Is(err, board.ErrGone) {
		return it, nil
	}
	return after, err
}

// label returns the label that shows a state.
func (b *Board) label(s board.State) string { return strings.ToLower(b.options.Marks) + string(s) }

// marks returns the labels that show claims. The first of them that an issue has says its state.
func (b *Board) marks() []string {
	return []string{b.label(board.StateBlocked), b.label(board.StateDone), b.label(board.StateWorking)}
}

// conditional is the last answer to a poll that listed everything: the same request can ask whether it has changed.
// GitHub does not count an answer 304 against the primary limit.
type conditional struct {
	path, etag string
	at         time.Time
}

// maxConditional bounds how long a poll relies on the ETag. A server that answers 304 although an issue has changed
// delays the change by no more than that.
const maxConditional = 5 * time.Minute

// get makes a call that reads JSON.
func (b *Board) get(ctx context.Context, op, path string, v any) error {
	r, err := b.call(ctx, op, http.MethodGet, path, nil, "")
	if err != nil {
		return err
	}
	if err := json.Unmarshal(r.Body, v); err != nil {
		return httpcall.Unavailable(b.http.NotAPI(op, r, false))
	}
	return nil
}

// write makes a call that writes, and classifies its error for a delivery.
func (b *Board) write(ctx context.Context, op, method, path string, v any) (httpcall.Response, error) {
	var body []byte
	if v != nil {
		var err error
		if body, err = json.Marshal(v); err != nil {
			return httpcall.Response{}, httpcall.Permanent(fmt.Errorf("encode the request to %s: %w", op, err))
		}
	}
	return b.call(ctx, op, method, path, body, "")
}
