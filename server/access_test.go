package server_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/store"
	"mailroom/store/storetest"
	"mailroom/thread"
)

// accessRule is how a test calls an operation, and the permission it needs.
type accessRule struct {
	need auth.Permission // "": no scope needed
	// token is set if it needs a token, with any scope; status is that of an anonymous caller, 0 is 200.
	token  bool
	status int
	// body is the request body; {thread} and the like stand for ids.
	body string
	// makes is set if the operation creates a missing thread.
	makes bool
	// shown names the test that checks the response to another token, or the reason that there is
	// nothing to check.
	shown string
}

// alertRules are the rules of the operations on alerts, and of those that exchange a link.
func alertRules() map[string]accessRule {
	return map[string]accessRule{
		"POST /v1/session":    {body: `{"secret":"x"}`, status: 401},
		"POST /v1/links/show": {body: `{"secret":"x"}`, status: 401},
		"GET /v1/alerts": {need: auth.PermissionRead,
			shown: "TestATokenMakesRulesAboutItsOwnThreads"},
		"POST /v1/alerts/rules": {need: auth.PermissionSubmit, body: `{"when":["ticket"],"to":["x"]}`,
			status: 422, shown: "TestATokenMakesRulesAboutItsOwnThreads"},
		"DELETE /v1/alerts/rules/{rule}": {need: auth.PermissionSubmit,
			shown: "TestATokenMakesRulesAboutItsOwnThreads"},
		"GET /v1/budgets": {need: auth.PermissionRead, shown: "TestBudgetsAreSeenByWhomTheyConcern"},
		"POST /v1/budgets/raise": {need: auth.PermissionAdmin, status: 404,
			body: `{"kind":"agent","name":"echo","period":"day","by":"1usd"}`},
		"POST /v1/alerts/test":                         {need: auth.PermissionAdmin, body: `{"target":"x"}`, status: 404},
		"POST /v1/question":                            {body: `{"link":"x"}`, status: 401},
		"POST /v1/question/decision":                   {body: `{"link":"x","decision":"deny"}`, status: 401},
		"GET /v1/push":                                 {need: auth.PermissionAdmin},
		"POST /v1/push/subscriptions":                  {need: auth.PermissionAdmin, body: `{}`},
		"DELETE /v1/push/subscriptions/{subscription}": {need: auth.PermissionAdmin},
	}
}

// accessRules has every operation. An operation that names an object is then tested against the
// objects of another owner.
func accessRules() map[string]accessRule {
	const read, submit, decide = auth.PermissionRead, auth.PermissionSubmit, auth.PermissionDecide
	const admin = auth.PermissionAdmin
	const projects, schedules = "TestAProjectNeedsAccess", "TestSchedulesOfOthersAreNotFound"
	lists, everything, frames := "TestListsShowWhatIsVisible", "TestTheStreamOfAllThreadsShowsWhatIsVisible", "TestFramesReachWhatIsVisible"
	rules := map[string]accessRule{
		"GET /healthz": {}, "GET /readyz": {}, "GET /v1/search": {need: read, shown: "TestASearchFindsWhatIsVisible"},
		"GET /metrics": {need: auth.PermissionMeasure, shown: "it names no thread"}, "GET /v1/stats/series": {need: auth.PermissionMeasure, shown: "it names no thread"},
		"GET /v1/stats/sums":              {need: auth.PermissionMeasure, shown: "it names no thread"},
		"GET /v1/agents":                  {need: read, shown: "it names no thread"},
		"GET /v1/channels":                {need: read, shown: "it names no thread"},
		"POST /v1/channels/{name}/resume": {need: admin}, "GET /v1/report": {need: read, shown: "TestReportsShowVisibleRows"},
		"GET /v1/pairings": {need: admin}, "POST /v1/pairings": {need: admin},
		"DELETE /v1/pairings/{channel}/{user}": {need: admin}, "GET /v1/issues": {need: admin},
		"GET /v1/workers":               {need: read, shown: "it names no thread"},
		"POST /v1/agents/{agent}/pause": {need: admin}, "POST /v1/agents/{agent}/resume": {need: admin},

		"GET /v1/threads":                                {need: read, shown: lists},
		"GET /v1/threads/{thread}":                       {need: read},
		"PATCH /v1/threads/{thread}":                     {need: submit, body: `{"metadata":{"a":1}}`},
		"DELETE /v1/threads/{thread}":                    {need: submit},
		"GET /v1/threads/{thread}/entries":               {need: read},
		"POST /v1/threads/{thread}/interrupt":            {need: submit},
		"GET /v1/threads/{thread}/stream":                {need: read},
		"GET /v1/threads/{thread}/messages":              {need: read},
		"POST /v1/threads/{thread}/messages":             {need: submit, body: `{"text":"hello"}`, makes: true},
		"POST /v1/messages":                              {need: submit, body: `{"thread":"{thread}","text":"hello"}`, makes: true},
		"GET /v1/threads/{thread}/messages/{message}":    {need: read},
		"PATCH /v1/threads/{thread}/messages/{message}":  {need: submit, body: `{"text":"other"}`},
		"DELETE /v1/threads/{thread}/messages/{message}": {need: submit},

		"GET /v1/runs":               {need: read, shown: lists},
		"GET /v1/runs/count":         {need: read, shown: "TestFailuresAreGroupedByError"},
		"GET /v1/failures":           {need: read, shown: "TestFailuresAreGroupedByError"},
		"GET /v1/audit":              {need: admin, shown: "TestOnlyAnAdminReadsTheAuditLog"},
		"GET /v1/waits":              {need: read, shown: "TestQueuedRunsAreSummedUpByWhatTheyWaitFor"},
		"GET /v1/runs/{run}":         {need: read},
		"GET /v1/runs/{run}/wait":    {need: read},
		"GET /v1/runs/{run}/stream":  {need: read},
		"POST /v1/runs/{run}/cancel": {need: submit},
		"POST /v1/runs/{run}/retry":  {need: submit},
		"POST /v1/runs/cancel":       {need: submit, body: `{"q":"status:queued"}`, shown: "TestACancelByFilterFindsWhatIsVisible"},
		"POST /v1/runs/retry":        {need: submit, body: `{"q":"status:cancelled"}`, shown: "TestARetryByFilterFindsWhatIsVisible"},
		"GET /v1/tickets":            {need: read, shown: lists},
		"GET /v1/tickets/{ticket}":   {need: read},
		"POST /v1/tickets/{ticket}":  {need: decide, body: `{"decision":"deny"}`},
		"GET /v1/stats":              {need: read, shown: lists},
		"GET /v1/stream":             {need: read, shown: everything},
		"GET /v1/ws":                 {shown: frames},

		"POST /v1/reservations":                     {need: submit, body: `{"project":"p","names":["a"],"holder":"x"}`, shown: projects},
		"GET /v1/reservations":                      {need: read, shown: projects},
		"POST /v1/reservations/{reservation}/renew": {need: submit, body: `{"ttl":"1h"}`},
		"DELETE /v1/reservations/{reservation}":     {need: submit},
		"POST /v1/reservations/release":             {need: submit, body: `{"project":"p","names":["a"],"holder":"x"}`, shown: projects},
		"POST /v1/notifications":                    {need: submit, body: `{"project":"p","from":"x","event":"e"}`, shown: projects},
		"GET /v1/notifications":                     {need: read, shown: projects},
		"POST /v1/notifications/take":               {need: submit, body: `{"project":"p","agent":"x"}`, shown: projects},
		"POST /v1/notifications/acknowledge":        {need: submit, body: `{"project":"p","agent":"x","seqs":[1]}`, shown: projects},
		"POST /v1/links":                            {token: true},
		"POST /v1/tokens/limited":                   {token: true, body: `{"scopes":["read"],"expires_at":"2100-01-01T00:00:00Z"}`},
		"GET /v1/session":                           {token: true}, "DELETE /v1/session": {token: true},

		"GET /v1/schedules":                {need: read, shown: schedules},
		"GET /v1/schedules/{name}":         {need: read, shown: schedules},
		"POST /v1/schedules":               {need: submit, body: `{"name":"x","spec":{"text":"x"}}`, shown: schedules},
		"POST /v1/schedules/{name}/pause":  {need: submit, body: `{}`, shown: schedules},
		"POST /v1/schedules/{name}/resume": {need: submit, shown: schedules},
		"POST /v1/schedules/{name}/run":    {need: submit, shown: schedules},
		"DELETE /v1/schedules/{name}":      {need: submit, shown: schedules},

		"POST /v1/tokens":          {need: admin, body: `{"name":"x","scopes":["read"]}`},
		"GET /v1/tokens":           {token: true},
		"DELETE /v1/tokens/{name}": {token: true}, "POST /v1/tokens/{name}/revoke": {token: true},
		"PATCH /v1/tokens/{name}": {need: admin},
	}
	maps.Copy(rules, alertRules())
	maps.Copy(rules, workRules())
	return rules
}

// workRules are the rules of remote workers.
func workRules() map[string]accessRule {
	const work = auth.PermissionWork
	return map[string]accessRule{
		"POST /v1/claims": {need: work, body: `{"agents":["far"]}`, shown: "it names a worker, as renew does"},

		"POST /v1/workers/{worker}/renew":   {need: work, body: `{"round":1,"held":[]}`},
		"POST /v1/workers/{worker}/leave":   {need: work},
		"POST /v1/claims/{claim}/entries":   {need: work, body: `{"number":1,"step":{}}`},
		"POST /v1/claims/{claim}/deltas":    {need: work, body: `{"offset":0,"text":"x"}`},
		"POST /v1/claims/{claim}/settle":    {need: work, body: `{"number":1,"outcome":"complete"}`},
		"POST /v1/claims/{claim}/steered":   {need: work, body: `{"after":0}`},
		"POST /v1/claims/{claim}/uploads":   {need: work},
		"GET /v1/claims/{claim}/blobs":      {need: work},
		"GET /v1/claims/{claim}/blob":       {need: work, shown: "TestWorkersAndClaimsOfOtherTokensAreNotFound"},
		"GET /v1/claims/{claim}/run":        {need: work},
		"GET /v1/claims/{claim}/input":      {need: work},
		"GET /v1/claims/{claim}/log":        {need: work},
		"GET /v1/claims/{claim}/transcript": {need: work},
		"GET /v1/claims/{claim}/tickets":    {need: work},
		"GET /v1/claims/{claim}/effects":    {need: work},
	}
}

// withToken returns the fixture with another token for its calls.
func (f *fixture) withToken(secret string) *fixture {
	other := *f
	other.secret = secret
	return &other
}

// createToken creates a token and returns its secret.
func (f *fixture) createToken(name, namespace string, scopes ...auth.Permission) string {
	f.t.Helper()
	made, err := f.client.Accounts().CreateToken(f.t.Context(),
		api.NewToken{Name: name, Namespace: namespace, Scopes: scopes})
	if err != nil {
		f.t.Fatal(err)
	}
	return made.Secret
}

// scopesWithout returns every scope except admin and p.
func scopesWithout(p auth.Permission) []auth.Permission {
	return slices.DeleteFunc(auth.Permissions(), func(s auth.Permission) bool {
		return s == p || s == auth.PermissionAdmin
	})
}

// makeObjects creates one object of each kind in a thread of f's token: a run that waits for a
// ticket, and a queued run with an unread message. It returns their ids.
func (f *fixture) makeObjects(threadID string) map[string]string {
	f.t.Helper()
	first := f.submit(threadID, "one")
	f.park(f.claim(), approval())
	behind := f.submit(threadID, "two")
	return map[string]string{
		"thread": threadID, "run": first.Run, "ticket": thread.TicketID(first.Run, "deploy"), "message": behind.Message,
		"name":  "unknown",
		"claim": first.Run + ":1", "worker": "w",
	}
}

// addReservation adds a reservation in a project of the thread's name.
func (f *fixture) addReservation(things map[string]string) map[string]string {
	f.t.Helper()
	held := mustCall[api.Reserved](f, "POST /v1/reservations", fmt.Sprintf(`{"project":%q,"names":["a"],"holder":"x"}`,
		things["thread"]))
	things["reservation"] = held.Granted[0].ID
	return things
}

// fillIDs replaces {name} in a route or body with ids.
func fillIDs(text string, things map[string]string) string {
	for name, id := range things {
		text = strings.ReplaceAll(text, "{"+name+"}", id)
	}
	return text
}

// maskIDs formats a response with the ids replaced by their names.
func maskIDs(a response, things map[string]string) string {
	out := fmt.Sprint(a.status, " ", a.header.Get("Content-Type"), " ", a.header.Get("Retry-After"), " ", a.body)
	for name, id := range things {
		for _, quote := range []string{`"`, `\"`} {
			out = strings.ReplaceAll(out, quote+id+quote, quote+"{"+name+"}"+quote)
		}
	}
	return out
}

// describedRoutes returns the operations in the OpenAPI description, as "METHOD /path".
func (f *fixture) describedRoutes() []string {
	f.t.Helper()
	spec := mustCall[struct {
		Paths map[string]map[string]json.RawMessage
	}](f, "GET /openapi.json", "")
	var all []string
	for path, methods := range spec.Paths {
		for method := range methods {
			all = append(all, strings.ToUpper(method)+" "+path)
		}
	}
	slices.Sort(all)
	return all
}

func TestEveryOperationChecksItsPermission(t *testing.T) {
	f := start(t)
	table := accessRules()
	if diff := gocmp.Diff(f.describedRoutes(), slices.Sorted(maps.Keys(table))); diff != "" {
		t.Fatalf("accessRules must have every operation (-described +rules):\n%s", diff)
	}
	mine := f.makeObjects("mine")
	revoked := f.createToken("gone", "", auth.Permissions()...)
	if err := f.client.Accounts().RevokeToken(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	lacking := map[auth.Permission]string{}
	for _, p := range auth.Permissions() {
		lacking[p] = f.createToken("without-"+string(p), "", scopesWithout(p)...)
	}
	before := f.snapshot()
	for route, a := range table {
		route, body := fillIDs(route, mine), fillIDs(a.body, mine)
		if want := cmp.Or(a.status, 200); a.need == "" && !a.token && route != "GET /v1/ws" {
			if got := f.withToken("").call(route, body); got.status != want {
				t.Errorf("%s with no token: %d %s, want %d", route, got.status, got.body, want)
			}
			continue
		}
		for name, header := range map[string]string{
			"a wrong token": "Authorization: Bearer mr_wrong", "a revoked token": "Authorization: Bearer " + revoked,
			"no token": "Authorization: ", "a blank token": "Authorization: Bearer ",
			"another scheme": "Authorization: Basic " + token,
		} {
			if route == "GET /v1/ws" && name == "no token" {
				continue // the token may come in the first frame
			}
			f.wantCode(name+": "+route, f.call(route, body, header), 401, mailroom.CodeUnauthenticated)
		}
		if a.need == "" {
			continue
		}
		got := f.withToken(lacking[a.need]).call(route, body)
		f.wantCode("without the scope: "+route, got, 403, mailroom.CodeForbidden)
		if !strings.Contains(got.body, "the scope "+string(a.need)) {
			t.Errorf("%s: %s does not name the scope %s", route, got.body, a.need)
		}
		// The permission is checked before the body is read.
		if a.body != "" {
			f.wantCode("without the scope, and nonsense: "+route, f.withToken(lacking[a.need]).call(route, `{"`), 403,
				mailroom.CodeForbidden)
		}
	}
	if after := f.snapshot(); after != before {
		t.Errorf("refused requests changed\n%s to\n%s", before, after)
	}
}

func TestResourcesOfOthersAreNotFound(t *testing.T) {
	f := start(t)
	stranger := f.withToken(f.createToken("stranger", "", scopesWithout("")...))
	ann := f.withToken(f.createToken("ann", "", scopesWithout("")...))
	theirs, unowned := ann.addReservation(ann.makeObjects("theirs")), ann.addReservation(ann.makeObjects("unowned"))
	f.clearOwner("unowned")
	f.clearOwner("project:unowned")
	nothing := map[string]string{"thread": "none", "run": "no-run", "ticket": "no-ticket", "message": "no-run.1",
		"name": "unknown", "claim": "no-run:1", "worker": "no-worker", "reservation": "no-reservation"}
	before := f.snapshot()
	n := 0
	for route, a := range accessRules() {
		named := fillIDs(route+a.body, theirs) != route+a.body && !strings.Contains(route, "{name}")
		switch {
		case a.shown != "" || a.need == "":
			continue
		case !named:
			if a.need != auth.PermissionAdmin {
				t.Errorf("%s names no object: set shown in accessRules", route)
			}
			continue
		}
		n++
		missing := route
		if a.makes { // a missing thread would be created, so compare with the response for a missing thread
			missing, nothing["thread"] = "GET /v1/threads/{thread}", "none"
		}
		want := maskIDs(stranger.call(fillIDs(missing, nothing), fillIDs(a.body, nothing)), nothing)
		if !strings.HasPrefix(want, "404 ") {
			t.Fatalf("%s of a missing object: %s, want 404", route, want)
		}
		for name, other := range map[string]struct {
			f      *fixture
			things map[string]string
		}{
			"a stranger, of ann's":           {stranger, theirs},
			"ann, without an owner":          {ann, unowned},
			"a stranger, without an owner":   {stranger, unowned},
			"the operator, without an owner": {f, unowned},
		} {
			if got := maskIDs(other.f.call(fillIDs(route, other.things), fillIDs(a.body, other.things)),
				other.things); got != want {
				t.Errorf("%s: %s: %s\nwant the response for a missing object: %s", name, route, got, want)
			}
		}
	}
	if n < 18 {
		t.Errorf("only %d operations name an object", n)
	}
	if after := f.snapshot(); after != before {
		t.Errorf("refused requests changed\n%s to\n%s", before, after)
	}
}

// clearOwner removes the owner of a thread. No operation of the API can.
func (f *fixture) clearOwner(thread string) {
	f.t.Helper()
	err := f.store.Update(f.t.Context(), func(tx store.Tx) error {
		_, rows, err := storetest.Lock(tx, nil, []string{thread})
		if err != nil {
			return err
		}
		rows[0].Owner = ""
		rows[0].Revision++
		return tx.Write(&store.Changes{Threads: rows})
	})
	if err != nil {
		f.t.Fatal(err)
	}
}
