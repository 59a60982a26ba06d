package boardtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom/channel/platformtest"
)

// Ids of the fake of Linear.
const (
	LinearToken   = "lin_api_secret"
	LinearAccount = "00000000-0000-4000-8000-00000000000a"
	LinearProject = "b1c2"
)

// linearKinds is the part of the schema that boards read (schema.graphql of @linear/sdk 88).
const linearKinds = `
Query viewer:User issue:Issue issues:IssueConnection comment:Comment team:Team teams:TeamConnection
Query projects:ProjectConnection
Mutation commentCreate:CommentPayload issueUpdate:IssuePayload
CommentPayload success lastSyncId comment:Comment
IssuePayload success lastSyncId issue:Issue
User id name displayName email app active
Team id key name states:WorkflowStateConnection
Project id name slugId
WorkflowState id name type position
IssueLabel id name
Comment id body createdAt updatedAt user:User
IssueRelation id type issue:Issue relatedIssue:Issue
Issue id identifier number title description url priority createdAt updatedAt archivedAt trashed labelIds
Issue previousIdentifiers state:WorkflowState team:Team project:Project assignee:User delegate:User parent:Issue
Issue labels:IssueLabelConnection relations:IssueRelationConnection inverseRelations:IssueRelationConnection
Issue comments:CommentConnection completedAt canceledAt creator:User
`

// Linear is a project of Linear with two teams, R and S, as its GraphQL API shows it. It takes the ids of comments from
// the client and refuses one that is taken, answers most errors with status 200, lists the newest change first, and
// counts the complexity of queries (https://linear.app/developers/rate-limiting).
type Linear struct {
	*platformtest.Server

	// Set before Up.
	Oldest bool // lists have the oldest change first
	Pages  int  // bounds the size of a page; 0: as asked for

	// Owned by mu.
	mu     sync.Mutex
	kinds  kinds
	issues map[string]Object // by id
	Points float64           // of complexity that are left
	costs  map[string]float64
	broken map[string]string // fields that cannot be read, by id of their issue
}

// NewLinear returns a project with n open issues of the team R, R-1 to R-n, with the label Agent.
func NewLinear(t testing.TB, n int) *Linear {
	t.Helper()
	f := &Linear{kinds: parseKinds(linearKinds), issues: map[string]Object{}, Points: 250_000,
		costs: map[string]float64{}, broken: map[string]string{}}
	f.Server = platformtest.NewServer(t, &f.mu, f)
	for i := range n {
		id, at := f.ID(fmt.Sprint("R-", i+1)), stamp(time.Now().Add(time.Duration(i-n)*time.Second))
		f.issues[id] = Object{"id": id, "identifier": fmt.Sprint("R-", i+1), "number": i + 1, "title": fmt.Sprint("Do ", i+1),
			"description": "It is broken.", "url": fmt.Sprint("https://linear.example/issue/R-", i+1), "priority": 0,
			"createdAt": at, "updatedAt": at, "trashed": nil, "archivedAt": nil, "state": LinearState("R", "Todo"),
			"team": team("R"), "project": Object{"id": "p1", "name": "Roof", "slugId": LinearProject},
			"labels": []Object{{"id": "l1", "name": "Agent"}}, "previousIdentifiers": []string{},
			"creator": Object{"id": "u-ann", "name": "ann"}, "comments": []Object{},
			"inverseRelations": []Object{}, "relations": []Object{}}
	}
	f.Up(t)
	return f
}

// ID returns the id of the issue that was created as and so on.
func (f *Linear) ID(name string) string {
	var n int
	_, _ = fmt.Sscanf(name, "R-%d", &n) // other names have the id of R-0, which does not exist
	return fmt.Sprintf("00000000-0000-4000-8000-%012x", 0x1000+n)
}

func stamp(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z") }

func team(key string) Object { return Object{"id": "team-" + key, "key": key, "name": "Team " + key} }

// LinearState returns a state of a team, R or S. The positions count within a type.
func LinearState(team, name string) Object {
	for _, s := range states(team) {
		if s["name"] == name {
			return s
		}
	}
	panic("no state " + name)
}

// states returns the states of a team in no order.
func states(team string) (all []Object) {
	for i, s := range [][2]string{{"In Review", "started"}, {"Done", "completed"}, {"Backlog", "backlog"},
		{"In Progress", "started"}, {"Todo", "unstarted"}, {"Canceled", "canceled"}, {"Triage", "triage"}} {
		all = append(all, Object{"id": team + "-" + s[0], "name": s[0], "type": s[1], "position": float64(10-i) / 2})
	}
	return all
}

// Edit changes an issue like a person.
func (f *Linear) Edit(name string, change func(it Object)) {
	f.Update(func() { f.change(f.ID(name), change) })
}

// change is Edit for a caller that holds the lock.
func (f *Linear) change(id string, change func(it Object)) {
	it := maps.Clone(f.issues[id])
	change(it)
	it["updatedAt"] = stamp(time.Now())
	f.issues[id] = it
}

// Touch sets the time of the last change of an issue.
func (f *Linear) Touch(name string, at time.Time) {
	f.Update(func() { f.issues[f.ID(name)]["updatedAt"] = stamp(at) })
}

// Move moves an issue to the team S like a person: it gets another identifier and a state of that team.
func (f *Linear) Move(name, state string) {
	f.Edit(name, func(it Object) {
		it["previousIdentifiers"] = []string{name}
		it["identifier"], it["team"], it["state"] = strings.Replace(name, "R", "S", 1), team("S"), LinearState("S", state)
	})
}

// Delete deletes an issue for good.
func (f *Linear) Delete(name string) { f.Update(func() { delete(f.issues, f.ID(name)) }) }

// Break makes a field of an issue unreadable, "" none.
func (f *Linear) Break(name, field string) { f.Update(func() { f.broken[f.ID(name)] = field }) }

// Issue returns an issue.
func (f *Linear) Issue(name string) Object {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.issues[f.ID(name)])
}

// State returns the name of the state of an issue.
func (f *Linear) State(name string) string { return f.Issue(name)["state"].(Object)["name"].(string) }

// Texts returns the comments of an issue.
func (f *Linear) Texts(name string) (all []string) {
	for _, c := range f.Issue(name)["comments"].([]Object) {
		all = append(all, c["body"].(string))
	}
	return all
}

// Cost returns the complexity of the most expensive query with a first field.
func (f *Linear) Cost(field string) float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.costs[field]
}

// String implements [platformtest.Dialect].
func (f *Linear) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return fmt.Sprint(f.issues, f.CountCalls())
}

// ServeHTTP implements [platformtest.Dialect]. The name of a call is the first field of its query.
func (f *Linear) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Query     string
		Variables Object
	}
	if raw, err := io.ReadAll(r.Body); err != nil || json.Unmarshal(raw, &in) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	fields := parse(in.Query, in.Variables)
	root := "Query"
	if strings.HasPrefix(strings.TrimSpace(in.Query), "mutation") {
		root = "Mutation"
	}
	f.Serve(w, r, fields[0].name, in.Variables, func() (any, *platformtest.Error) {
		if r.Header.Get("Authorization") != LinearToken {
			return nil, refuse(http.StatusUnauthorized, "authentication error", "AUTHENTICATION_ERROR", "no token")
		}
		return f.execute(root, fields)
	})
}

func refuse(status int, kind, code, message string) *platformtest.Error {
	return &platformtest.Error{Status: status, Code: code, Message: message, Fields: Object{"type": kind}}
}

// answer is an executed query.
type answer struct {
	data   Object
	errors []any
	left   float64 // points
}

// Respond implements [platformtest.Dialect]. Linear answers errors with status 200 or 400.
func (f *Linear) Respond(w http.ResponseWriter, result any, refused *platformtest.Error) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	body := Object{}
	if done, ok := result.(answer); ok {
		w.Header().Set("X-RateLimit-Requests-Remaining", "1499")
		w.Header().Set("X-RateLimit-Complexity-Remaining", fmt.Sprint(math.Floor(done.left)))
		if body["data"] = done.data; len(done.errors) > 0 {
			body["errors"] = done.errors
		}
	}
	if refused != nil {
		extensions := Object{"code": refused.Code, "userPresentableMessage": refused.Message}
		maps.Copy(extensions, refused.Fields)
		body["errors"] = []Object{{"message": refused.Message, "extensions": extensions}}
		if refused.RetryAfter > 0 {
			w.Header().Set("Retry-After", fmt.Sprint(refused.RetryAfter))
		}
		w.WriteHeader(cmp.Or(refused.Status, http.StatusOK))
	}
	_ = json.NewEncoder(w).Encode(body) // the client may be gone
}

// maxCost bounds the complexity of one query.
const maxCost = 10_000

func (f *Linear) execute(root string, fields []selection) (any, *platformtest.Error) {
	if problem := f.kinds.check(root, fields); problem != "" {
		return nil, refuse(http.StatusBadRequest, "graphql error", "GRAPHQL_VALIDATION_FAILED", problem)
	}
	cost := math.Ceil(f.kinds.cost(root, fields, 0))
	f.costs[fields[0].name] = max(f.costs[fields[0].name], cost)
	switch {
	case cost > maxCost:
		return nil, refuse(http.StatusBadRequest, "invalid input", "INPUT_ERROR",
			fmt.Sprintf("The query is too complex. Complexity: %v. Maximum allowed complexity: %d.", cost, maxCost))
	case cost > f.Points:
		return nil, refuse(http.StatusBadRequest, "ratelimited", "RATELIMITED", "Rate limit exceeded")
	}
	f.Points -= cost
	from := Object{}
	for _, s := range fields {
		value, refused := f.root(s.name, s.args)
		if refused != nil {
			return nil, refused
		}
		from[s.name] = value
	}
	e := execution{kinds: f.kinds, broken: func(from Object, field string) bool {
		id, _ := from["id"].(string)
		return id != "" && f.broken[id] == field
	}}
	return answer{e.object(root, from, fields, nil), e.errors, f.Points}, nil
}

func notFound(kind string) *platformtest.Error {
	return refuse(0, "invalid input", "INPUT_ERROR", "Entity not found: "+kind+" - Could not find referenced "+kind+".")
}

// root returns the value of a field of a query or mutation.
func (f *Linear) root(name string, args Object) (any, *platformtest.Error) {
	id, _ := args["id"].(string)
	input, _ := args["input"].(Object)
	switch name {
	case "viewer":
		return account(), nil
	case "projects":
		return filtered(args, Object{"id": "p1", "slugId": LinearProject, "name": "Roof"}), nil
	case "teams":
		return filtered(args, team("R"), team("S")), nil
	case "team":
		t := team(strings.TrimPrefix(id, "team-"))
		t["states"] = states(t["key"].(string))
		return t, nil
	case "issue":
		if it, has := f.issues[id]; has {
			return it, nil
		}
		return nil, notFound("Issue")
	case "comment":
		if c := f.comment(id); c != nil {
			return c, nil
		}
		return nil, notFound("Comment")
	case "commentCreate":
		return f.createComment(input)
	case "issueUpdate":
		return f.updateIssue(id, input)
	}
	return f.list(args)
}

func account() Object {
	return Object{"id": LinearAccount, "name": "Mailroom", "app": true, "active": true}
}

func (f *Linear) comment(id string) Object {
	for _, it := range f.issues {
		for _, c := range it["comments"].([]Object) {
			if c["id"] == id {
				return c
			}
		}
	}
	return nil
}

func (f *Linear) createComment(in Object) (any, *platformtest.Error) {
	id, _ := in["id"].(string)
	issue, _ := in["issueId"].(string)
	body, _ := in["body"].(string)
	switch {
	case len(id) != 36 || id[14] != '4' || !strings.ContainsRune("89ab", rune(id[19])) || body == "":
		return nil, refuse(http.StatusBadRequest, "invalid input", "INPUT_ERROR", "Argument Validation Error")
	case f.comment(id) != nil:
		return nil, refuse(0, "invalid input", "INPUT_ERROR", "the id is taken")
	case f.issues[issue] == nil:
		return nil, notFound("Issue")
	}
	c := Object{"id": id, "body": body, "createdAt": stamp(time.Now()), "user": account()}
	f.change(issue, func(it Object) { it["comments"] = append(slices.Clone(it["comments"].([]Object)), c) })
	return Object{"success": true, "comment": c}, nil
}

func (f *Linear) updateIssue(id string, in Object) (any, *platformtest.Error) {
	it, has := f.issues[id]
	if !has {
		return nil, notFound("Issue")
	}
	key := it["team"].(Object)["key"].(string)
	for field, value := range in {
		switch field {
		case "stateId":
			at := slices.IndexFunc(states(key), func(s Object) bool { return s["id"] == value })
			if at < 0 {
				return nil, refuse(0, "invalid input", "INPUT_ERROR", "The state does not belong to the team of the issue")
			}
			f.change(id, func(it Object) { it["state"] = states(key)[at] })
		case "delegateId":
			f.change(id, func(it Object) {
				if it["delegate"] = nil; value != nil {
					it["delegate"] = Object{"id": value}
				}
			})
		default:
			return nil, refuse(http.StatusBadRequest, "graphql error", "GRAPHQL_VALIDATION_FAILED", "Unknown field "+field)
		}
	}
	return Object{"success": true, "issue": f.issues[id]}, nil
}

// list is a page of the issues that a filter lets through. A cursor is the id of the last issue of the page before.
func (f *Linear) list(args Object) (any, *platformtest.Error) {
	filter, _ := args["filter"].(Object)
	var found []Object
	for _, it := range f.issues {
		if fits(it, filter) && (args["includeArchived"] == true || it["archivedAt"] == nil) {
			found = append(found, it)
		}
	}
	by := cmp.Or(fmt.Sprint(args["orderBy"]), "createdAt")
	slices.SortFunc(found, func(a, b Object) int {
		c := cmp.Or(strings.Compare(b[by].(string), a[by].(string)), strings.Compare(a["id"].(string), b["id"].(string)))
		if f.Oldest {
			return -c
		}
		return c
	})
	if after, has := args["after"]; has {
		at := slices.IndexFunc(found, func(it Object) bool { return it["id"] == after })
		if at < 0 {
			return nil, refuse(http.StatusBadRequest, "invalid input", "INPUT_ERROR", "Invalid cursor")
		}
		found = found[at+1:]
	}
	n := min(pageSize(args), len(found))
	if f.Pages > 0 {
		n = min(n, f.Pages)
	}
	out := page(found, n)
	if n > 0 {
		out["pageInfo"].(Object)["endCursor"] = found[n-1]["id"]
	}
	return out, nil
}

// filtered returns the objects that the filter of a list lets through.
func filtered(args Object, all ...Object) []Object {
	filter, _ := args["filter"].(Object)
	return slices.DeleteFunc(all, func(o Object) bool { return !fits(o, filter) })
}

// fits reports whether an object passes a filter. It panics for a filter that it does not know.
func fits(it, filter Object) bool {
	for name, want := range filter {
		switch name {
		case "and":
			for _, all := range want.([]any) {
				if !fits(it, all.(Object)) {
					return false
				}
			}
			continue
		case "labels":
			some := want.(Object)["some"].(Object)
			if !slices.ContainsFunc(it["labels"].([]Object), func(l Object) bool { return fits(l, some) }) {
				return false
			}
			continue
		}
		if nested, ok := it[name].(Object); ok {
			if !fits(nested, want.(Object)) {
				return false
			}
			continue
		}
		if it[name] == nil || !compares(fmt.Sprint(it[name]), want.(Object)) {
			return false
		}
	}
	return true
}

func compares(got string, want Object) bool {
	for how, value := range want {
		var good bool
		switch how {
		case "eq":
			good = got == value
		case "eqIgnoreCase":
			good = strings.EqualFold(got, value.(string))
		case "gte":
			good = !mustParse(got).Before(mustParse(value.(string)))
		case "in":
			good = slices.Contains(value.([]any), any(got))
		case "nin":
			good = !slices.Contains(value.([]any), any(got))
		default:
			panic("unknown comparator " + how)
		}
		if !good {
			return false
		}
	}
	return true
}

func mustParse(at string) time.Time {
	parsed, err := time.Parse(time.RFC3339Nano, at)
	if err != nil {
		panic(err)
	}
	return parsed
}
