package github

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"mailroom"
	"mailroom/channel/httpcall"
)

// PullOptions configure [Pulls]. Base and Token are required.
type PullOptions struct {
	Base *url.URL // of the API, as in [Options]
	// Token returns the present token. It is sent to the host of Base, and to no other.
	Token func() (string, error)
	// WritePause is as in [Options].
	WritePause time.Duration
}

// Pulls opens pull requests with one token. It is safe for concurrent use.
type Pulls struct {
	options PullOptions

	// Owned by mu.
	mu     sync.Mutex
	token  string
	limits *limits // of token
}

// NewPulls returns the pull requests of a token. It makes no call.
func NewPulls(o PullOptions) *Pulls { return &Pulls{options: o} }

// maxPullQueue bounds how long a pull request waits for its turn: many tasks may end at the same time.
const maxPullQueue = 3 * time.Minute

// Repository opens pull requests of one repository, and finds them. Its errors are one sentence for a person.
type Repository struct {
	pulls *Pulls
	name  string // "owner/name"
	about struct {
		Branch string `json:"default_branch"`
		Parent *struct {
			Name string `json:"full_name"`
		} `json:"parent"` // of a fork
	}
}

// Of returns the repository with an address that git uses, such as git@github.com:ann/roof.git, or nil if it is not at
// the host of the API. An agent can change that address, so it never decides where the token is sent.
func (p *Pulls) Of(address string) *Repository {
	host, name := remoteOf(address)
	if !p.serves(strings.ToLower(host)) || checkRepository(name) != nil {
		return nil
	}
	return &Repository{pulls: p, name: name}
}

// serves reports whether the API is the one of a host of git. A GitHub Enterprise Server has both on one host; in the
// cloud, api.github.com is the API of github.com, whose SSH over the port of HTTPS has a name of its own.
// https://docs.github.com/en/authentication/troubleshooting-ssh/using-ssh-over-the-https-port
func (p *Pulls) serves(host string) bool {
	api := strings.ToLower(p.options.Base.Hostname())
	return host != "" && (host == api || "api."+host == api || "api."+strings.TrimPrefix(host, "ssh.") == api)
}

// remoteOf returns the host and the path of an address that git uses, without the slashes around it and ".git".
func remoteOf(address string) (host, path string) {
	u, err := url.Parse(address)
	switch {
	case err == nil && (u.Scheme == "https" || u.Scheme == "http" || u.Scheme == "ssh"):
		host, path = u.Hostname(), u.Path
	case strings.Contains(address, "://"):
		return "", ""
	default: // git@github.com:ann/roof.git
		host, path, _ = strings.Cut(address, ":")
		host = host[strings.LastIndex(host, "@")+1:]
	}
	return host, strings.TrimSuffix(strings.Trim(path, "/"), ".git")
}

// open returns the repository for calls, with the present token.
func (r *Repository) open() (*Board, error) {
	token, err := r.pulls.options.Token()
	if err != nil {
		return nil, err
	}
	b, err := New(Options{Base: r.pulls.options.Base, Repo: r.name, Token: token})
	if err != nil {
		return nil, err
	}
	r.pulls.mu.Lock()
	defer r.pulls.mu.Unlock()
	if r.pulls.limits == nil || r.pulls.token != token {
		r.pulls.token = token
		r.pulls.limits = newLimits(r.pulls.options.WritePause, maxPullQueue)
	}
	b.limits = r.pulls.limits
	return b, nil
}

// begin opens the repository for calls, and reads what GitHub says about it.
func (r *Repository) begin(ctx context.Context) (*Board, error) {
	b, err := r.open()
	if err != nil {
		return nil, err
	}
	if err := r.describe(ctx, b); err != nil {
		b.Close()
		return nil, r.explain(err)
	}
	return b, nil
}

// Find returns the address of the pull request of a branch of the repository, in any state, or "". One that is open
// comes first, then the newest. If the repository is a fork, one at its parent counts too.
func (r *Repository) Find(ctx context.Context, branch string) (address string, err error) {
	b, err := r.begin(ctx)
	if err != nil {
		return "", err
	}
	defer b.Close()
	if address, err = r.find(ctx, b, r.name, branch); err != nil || address != "" {
		return address, r.explain(err)
	}
	if p := r.about.Parent; p != nil && checkRepository(p.Name) == nil {
		address, err = r.find(ctx, b, p.Name, branch)
		refusal, refused := errors.AsType[*httpcall.Refusal](err)
		if refused && refusal.Code == "" &&
			(refusal.Status == http.StatusNotFound || refusal.Status == http.StatusForbidden) {
			err = nil // the token reads the fork only
		}
	}
	return address, r.explain(err)
}

// describe reads the default branch and the parent, once.
func (r *Repository) describe(ctx context.Context, b *Board) error {
	if r.about.Branch != "" {
		return nil
	}
	err := b.read(ctx, "read the repository", "/repos/"+r.name, &r.about)
	if err == nil && r.about.Branch == "" {
		err = &httpcall.TransportError{Op: "read the repository", Reason: "the answer of GitHub names no default branch"}
	}
	return err
}

// pullRow is a pull request.
// https://docs.github.com/en/rest/pulls/pulls#list-pull-requests
type pullRow struct {
	URL   string `json:"html_url"`
	State string `json:"state"`
	Head  struct {
		Branch string   `json:"ref"`
		Commit string   `json:"sha"`
		User   *account `json:"user"`
	} `json:"head"`
}

// find looks for the pull request of a branch of this repository in one of its own or of its parent. GitHub lists the
// newest first, and all of them if it does not understand the filter, so each row is compared.
func (r *Repository) find(ctx context.Context, b *Board, in, branch string) (address string, err error) {
	owner, _, _ := strings.Cut(r.name, "/")
	query := url.Values{"head": {owner + ":" + branch}, "state": {"all"}, "per_page": {"100"}}
	var rows []pullRow
	if err := b.read(ctx, "look for the pull request", "/repos/"+in+"/pulls?"+query.Encode(), &rows); err != nil {
		return "", err
	}
	for _, row := range rows {
		if row.Head.Branch != branch || row.Head.User == nil || !strings.EqualFold(row.Head.User.Login, owner) ||
			!isWeb(row.URL) {
			continue
		}
		if row.State == "open" {
			return row.URL, nil
		}
		if address == "" {
			address = row.URL
		}
	}
	return address, nil
}

func isWeb(address string) bool {
	return strings.HasPrefix(address, "https://") || strings.HasPrefix(address, "http://")
}

// Open opens a pull request of a branch for the default branch, and returns its address. After an error it may have
// been opened all the same.
// https://docs.github.com/en/rest/pulls/pulls#create-a-pull-request
func (r *Repository) Open(ctx context.Context, branch, title, text string) (address string, err error) {
	b, err := r.begin(ctx)
	if err != nil {
		return "", err
	}
	defer b.Close()
	body, err := json.Marshal(map[string]string{"title": title, "body": text, "head": branch, "base": r.about.Branch})
	if err != nil {
		return "", err
	}
	const op = "open the pull request"
	answer, err := b.exchange(ctx, op, http.MethodPost, "/repos/"+r.name+"/pulls", body, "")
	if refusal, ok := errors.AsType[*httpcall.Refusal](err); ok && answer.Status == http.StatusUnprocessableEntity {
		refusal.Text = b.http.Redact([]byte(refusal.Text + reasons(answer.Body)))
	}
	if err != nil {
		return "", r.explain(err)
	}
	var opened pullRow
	if json.Unmarshal(answer.Body, &opened) != nil || !isWeb(opened.URL) {
		return "", r.explain(b.http.NotAPI(op, answer, true))
	}
	return opened.URL, nil
}

// pullAnswer is one pull request.
// https://docs.github.com/en/rest/pulls/pulls#get-a-pull-request
type pullAnswer struct {
	pullRow
	Number int    `json:"number"`
	Merged bool   `json:"merged"`
	Status string `json:"mergeable_state"`
}

// maxTag bounds the ETag that is kept.
const maxTag = 200

// Pull is what GitHub says of a pull request. Same is set, and nothing else, if the answer with the tag still holds.
type Pull struct {
	Merged, Open bool
	Head         string // its newest commit
	Status       string // of a merge, such as unstable
	Tag          string
	Same         bool
}

// Look reads the pull request of a branch with an address. The request is conditional: GitHub does not count one that
// finds nothing new. The repository in the address may have been renamed since, or is the parent of a fork; so the
// answer must have the number and the branch.
func (r *Repository) Look(ctx context.Context, branch, address, tag string) (p Pull, err error) {
	u, err := url.Parse(address)
	if err != nil {
		return p, errors.New("the address of the pull request is none")
	}
	words := strings.Split(strings.Trim(u.Path, "/"), "/")
	number, err := strconv.Atoi(words[len(words)-1])
	if err != nil || number <= 0 || len(words) < 4 {
		return p, errors.New("the address of the pull request has no number")
	}
	b, err := r.open()
	if err != nil {
		return p, err
	}
	defer b.Close()
	name := strings.Join(words[:2], "/")
	if checkRepository(name) != nil || strings.EqualFold(name, r.name) {
		name = r.name
	}
	answer, err := b.look(ctx, name, number, tag)
	refusal, refused := errors.AsType[*httpcall.Refusal](err)
	if refused && name != r.name && (refusal.Code == codeMoved || refusal.Code == "" && refusal.Status < 500) {
		answer, err = b.look(ctx, r.name, number, tag)
	}
	if err != nil {
		return p, r.explain(err)
	}
	if answer.Status == http.StatusNotModified {
		return Pull{Same: true}, nil
	}
	var one pullAnswer
	if json.Unmarshal(answer.Body, &one) != nil || one.Number != number || one.Head.Branch != branch {
		return p, errors.New("GitHub answers with another pull request")
	}
	p = Pull{Merged: one.Merged, Open: one.State == "open", Head: one.Head.Commit, Status: one.Status,
		Tag: answer.Header.Get("ETag")}
	if len(p.Tag) > maxTag {
		p.Tag = ""
	}
	return p, nil
}

func (b *Board) look(ctx context.Context, name string, number int, tag string) (httpcall.Response, error) {
	path := fmt.Sprintf("/repos/%s/pulls/%d", name, number)
	return b.exchange(ctx, "read the pull request", http.MethodGet, path, nil, tag)
}

// reasons returns what an answer 422 says beside its message, such as that there is a pull request already.
func reasons(body []byte) (text string) {
	var answer struct {
		Errors []struct {
			Message string `json:"message"`
		} `json:"errors"`
	}
	_ = json.Unmarshal(body, &answer) // the status says enough
	for _, e := range answer.Errors {
		if e.Message != "" {
			text += ": " + e.Message
		}
	}
	return text
}

// read makes a call that reads JSON. Its error has no class.
func (b *Board) read(ctx context.Context, op, path string, v any) error {
	r, err := b.exchange(ctx, op, http.MethodGet, path, nil, "")
	if err == nil && json.Unmarshal(r.Body, v) != nil {
		err = b.http.NotAPI(op, r, false)
	}
	return err
}

// explain says what a person can do about an error. An error that can pass is a [mailroom.Failure] that says when to
// try again.
func (r *Repository) explain(err error) error {
	refusal, refused := errors.AsType[*httpcall.Refusal](err)
	_, lost := errors.AsType[*httpcall.TransportError](err)
	again := func(after time.Duration) error {
		return &mailroom.Failure{Class: mailroom.ClassUnavailable, RetryAfter: after, Err: err}
	}
	switch {
	case refused && (refusal.Code == codeLimit || refusal.Status >= http.StatusInternalServerError):
		return again(refusal.RetryAfter)
	case refused && refusal.Code == codeMoved:
		return fmt.Errorf("the repository %s was renamed or moved; set the present address of the remote: %w", r.name, err)
	case refused && refusal.Status == http.StatusUnauthorized:
		return fmt.Errorf("the token of pull_token_file or pull_token_env is refused; make another one: %w", err)
	case refused && (refusal.Status == http.StatusForbidden || refusal.Status == http.StatusNotFound):
		return fmt.Errorf("the repository %s does not exist, or the token may not open its pull requests: %w", r.name, err)
	case lost:
		return again(0)
	}
	return err
}
