package server_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/client"
	"mailroom/entry"
	"mailroom/internal/reserved"
	"mailroom/server"
	"mailroom/store"
)

// audited returns the actions that match a filter, the oldest first.
func (f *fixture) audited(q string) []api.AuditedAction {
	f.t.Helper()
	page := mustCall[api.Page[api.AuditedAction]](f.withToken(token), "GET /v1/audit?limit=500&q="+url.QueryEscape(q), "")
	slices.Reverse(page.Items)
	return page.Items
}

// writesInTheAuditLog says which writes of the API are recorded, and with which actions, or why not.
func writesInTheAuditLog() map[string]string {
	const (
		own    = "the work of a token on its own threads, which its log has"
		worker = "the work of a worker"
		reads  = "changes nothing"
	)
	return map[string]string{
		"POST /v1/messages": own, "POST /v1/threads/{thread}/messages": own,
		"PATCH /v1/threads/{thread}/messages/{message}": own, "DELETE /v1/threads/{thread}/messages/{message}": own,
		"PATCH /v1/threads/{thread}": "!thread.change", "DELETE /v1/threads/{thread}": "!thread.delete",
		"POST /v1/threads/{thread}/interrupt": "!thread.interrupt",
		"POST /v1/runs/{run}/cancel":          "!run.cancel", "POST /v1/runs/cancel": "!run.cancel",
		"POST /v1/runs/{run}/retry": "!run.retry", "POST /v1/runs/retry": "!run.retry",
		"POST /v1/tickets/{ticket}": "!ticket.approve", "POST /v1/question/decision": "!ticket.deny",
		"POST /v1/question": reads, "POST /v1/links/show": reads,
		"POST /v1/agents/{agent}/pause": "!agent.pause", "POST /v1/agents/{agent}/resume": "!agent.resume",
		"POST /v1/channels/{name}/resume": "!channel.resume",
		"POST /v1/alerts/rules":           "!rule.put", "DELETE /v1/alerts/rules/{rule}": "!rule.delete",
		"POST /v1/budgets/raise": "!budget.raise",
		"POST /v1/schedules":     "!schedule.put", "POST /v1/schedules/{name}/pause": "!schedule.pause",
		"POST /v1/schedules/{name}/resume": "!schedule.resume", "POST /v1/schedules/{name}/run": "!schedule.run",
		"DELETE /v1/schedules/{name}": "!thread.delete",
		"POST /v1/alerts/test":        "sends a message, which the log of its target has",
		"POST /v1/push/subscriptions": "!push.subscribe", "DELETE /v1/push/subscriptions/{subscription}": "!thread.delete",
		"POST /v1/pairings": "!pairing.approve", "DELETE /v1/pairings/{channel}/{user}": "!pairing.revoke",
		"POST /v1/tokens": "!token.create", "PATCH /v1/tokens/{name}": "!token.quotas",
		"DELETE /v1/tokens/{name}": "!token.revoke", "POST /v1/tokens/{name}/revoke": "!token.revoke",
		"POST /v1/links": "!token.create", "POST /v1/tokens/limited": "!token.create",
		"POST /v1/session": "!sign-in", "DELETE /v1/session": "!sign-out",
		"POST /v1/reservations": own, "POST /v1/reservations/{reservation}/renew": own,
		"DELETE /v1/reservations/{reservation}": "!reservation.release", "POST /v1/reservations/release": own,
		"POST /v1/notifications": own, "POST /v1/notifications/take": own, "POST /v1/notifications/acknowledge": own,
		"POST /v1/claims": worker, "POST /v1/workers/{worker}/renew": worker, "POST /v1/workers/{worker}/leave": worker,
		"POST /v1/claims/{claim}/entries": worker, "POST /v1/claims/{claim}/deltas": worker,
		"POST /v1/claims/{claim}/settle": worker, "POST /v1/claims/{claim}/steered": worker,
		"POST /v1/claims/{claim}/uploads": worker,
	}
}

// A new write must be recorded, or have a reason not to be.
func TestEveryWriteIsRecordedOrHasAReasonNotTo(t *testing.T) {
	f := start(t)
	known := writesInTheAuditLog()
	for _, route := range f.describedRoutes() {
		if !strings.HasPrefix(route, "GET ") && known[route] == "" {
			t.Errorf("%s: neither an action of the audit log nor a reason", route)
		}
	}
}

// resumable is a channel that can be resumed.
type resumable struct{}

func (resumable) All() []api.Channel   { return []api.Channel{{Name: "tg", State: "up"}} }
func (resumable) Resume(n string) bool { return n == "tg" }

func TestWhatOperatorsDoIsInTheAuditLog(t *testing.T) {
	f := start(t, withTargets, func(o *server.Options) { o.Parts.Channels = resumable{} })
	secrets := []string{token}
	made := mustCall[api.CreatedToken](f, "POST /v1/tokens", `{"name":"ann","scopes":["read","submit","decide"]}`)
	ann := f.withToken(made.Secret)
	run, tickets := ann.waiting("t", approval())
	_, others := ann.waiting("u", approval())
	ann.submit("idle", "x")
	idle := ann.claim()
	ann.settleRun(idle, "complete", "")
	link := mustCall[api.Link](f, "POST /v1/links", "")
	session := f.spend(link)
	secrets = append(secrets, made.Secret, link.Secret, session.half, session.cookie.Value, "a private reason")
	taken := mustCall[api.Reserved](ann, "POST /v1/reservations", `{"project":"p","names":["a"],"holder":"x"}`)
	held := taken.Granted[0].ID
	for _, do := range []string{
		`POST /v1/tickets/` + tickets["deploy"].ID + ` {"decision":"approve","digest":"` + tickets["deploy"].Digest +
			`","reason":"a private reason"}`,
		`POST /v1/agents/echo/pause {"reason":"costs"}`, `POST /v1/agents/echo/resume`,
		`POST /v1/channels/tg/resume`, `POST /v1/runs/` + run + `/cancel`, `POST /v1/runs/` + run + `/retry`,
		`PATCH /v1/threads/t {"agent":"codex"}`, `POST /v1/threads/t/interrupt`, `DELETE /v1/threads/idle`,
		`POST /v1/alerts/rules {"name":"r","when":["ticket"],"to":["phone"]}`, `DELETE /v1/alerts/rules/r`,
		`PATCH /v1/tokens/ann {"quotas":{"threads":7}}`, `DELETE /v1/reservations/` + held + `?force=true`,
	} {
		route, body, _ := strings.Cut(do, " {")
		if body != "" {
			body = "{" + body
		}
		if got := session.call(route, body); got.status >= 300 {
			t.Fatalf("%s: %d %s", do, got.status, got.body)
		}
	}
	url := linkTo(others["deploy"], nil)
	secrets = append(secrets, url)
	if got := f.follow("/v1/question/decision", url, `,"decision":"deny"`); got.status != 200 {
		t.Fatal(got.body)
	}
	if got := session.call("DELETE /v1/session", ""); got.status >= 300 {
		t.Fatal(got.body)
	}
	mustCall[api.RevokedToken](f, "POST /v1/tokens/ann/revoke", "")
	var got []string
	for _, a := range f.audited("") {
		got = append(got, fmt.Sprintf("%s (%s): %s %s", a.Actor, a.ActorKind, a.Action, a.ObjectKind))
		if a.From != "127.0.0.1" || a.At.IsZero() || a.Object == "" {
			t.Errorf("%+v: no address, time or object", a)
		}
	}
	if diff := gocmp.Diff([]string{
		"admin (operator): token.create token", "admin (operator): token.create link", "admin (link): sign-in session",
		"admin (session): ticket.approve ticket", "admin (session): agent.pause agent", "admin (session): agent.resume agent",
		"admin (session): channel.resume channel", "admin (session): run.cancel run", "admin (session): run.retry run",
		"admin (session): thread.change thread", "admin (session): thread.interrupt thread",
		"admin (session): thread.delete thread", "admin (session): rule.put rule", "admin (session): rule.delete rule",
		"admin (session): token.quotas token", "admin (session): reservation.release reservation",
		"alert:phone (link): ticket.deny ticket", "admin (session): sign-out session", "admin (operator): token.revoke token",
	}, got); diff != "" {
		t.Error(diff)
	}
	f.wantNoSecret(secrets)
}

func TestABrowserOfAlertsIsInTheAuditLog(t *testing.T) {
	f := startPush(t)
	id := f.subscribe("one")
	if got := f.call("DELETE /v1/push/subscriptions/"+id, ""); got.status >= 300 {
		t.Fatal(got.body)
	}
	got := f.audited("")
	if len(got) != 2 || got[0].Action != "push.subscribe" || got[0].Object != id || got[1].Action != "thread.delete" ||
		!strings.HasSuffix(got[1].Object, id) {
		t.Errorf("got %+v", got)
	}
	f.wantNoSecret([]string{"push.example.net", newBrowser("one").Keys.Auth, newBrowser("one").Keys.P256DH})
}

// wantNoSecret searches all entries of the audit log for secrets.
func (f *fixture) wantNoSecret(secrets []string) {
	f.t.Helper()
	err := f.ledger.View(f.t.Context(), func(r store.Reader) error {
		found, err := r.Entries(store.EntryQuery{Thread: reserved.AuditLog})
		for _, e := range found {
			for _, s := range secrets {
				if strings.Contains(string(e.Raw), s) {
					f.t.Errorf("the secret %q is in the audit log: %s", s, e.Raw)
				}
			}
		}
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
}

func TestOnlyAnAdminReadsTheAuditLog(t *testing.T) {
	f := start(t)
	mustCall[api.Pause](f, "POST /v1/agents/echo/pause", `{}`)
	all := f.withToken(f.createToken("ann", "", scopesWithout("")...))
	space := f.withToken(f.createToken("bob", "audit:", auth.PermissionRead, auth.PermissionSubmit))
	reader := f.limited(`"read"`)
	for _, who := range []*fixture{all, space, reader} {
		f.wantCode("the audit log", who.call("GET /v1/audit", ""), 403, mailroom.CodeForbidden)
	}
	if got := f.audited("action:agent.*"); len(got) != 1 {
		t.Errorf("got %+v", got)
	}
	for _, who := range []*fixture{f, all, space, reader} { // no token reads or changes it as a thread
		for _, route := range []string{"GET /v1/threads/audit:log", "GET /v1/threads/audit:log/entries",
			"GET /v1/threads/audit:log/stream"} {
			f.wantCode(route, who.call(route, ""), 404, mailroom.CodeNotFound)
		}
		if got := who.listThreads("threads", "", 500); len(got) != 0 {
			t.Errorf("the list of threads has %q", got)
		}
	}
	for _, route := range []string{"DELETE /v1/threads/audit:log", "POST /v1/threads/audit:log/interrupt"} {
		f.wantCode(route, f.call(route, ""), 404, mailroom.CodeNotFound)
	}
	f.wantCode("submit", f.call("POST /v1/threads/audit:log/messages", `{"text":"x"}`), 403, mailroom.CodeForbidden)
}

// addActions writes actions to the audit log, one a minute from a time on.
func (f *fixture) addActions(at time.Time, n int) {
	f.t.Helper()
	row := &mailroom.Thread{ID: reserved.AuditLog, FirstSeq: 1, NextPlace: 1, LastSeq: int64(n), CreatedAt: at,
		UpdatedAt: at}
	c := &store.Changes{Threads: []*mailroom.Thread{row}, Entries: [][]mailroom.Entry{nil}}
	for i := range n {
		e, err := entry.New(reserved.AuditLog, int64(i+1), entry.KindAudit, "", 0, at.Add(time.Duration(i)*time.Minute),
			entry.Audit{Action: "agent.pause", Actor: fmt.Sprint("ops", i%3), ObjectKind: "agent", Object: fmt.Sprint("a", i)})
		if err != nil {
			f.t.Fatal(err)
		}
		row.Bytes += int64(len(e.Raw))
		c.Entries[0] = append(c.Entries[0], e)
	}
	if err := f.store.Update(f.t.Context(), func(tx store.Tx) error { return tx.Write(c) }); err != nil {
		f.t.Fatal(err)
	}
}

func TestTheAuditLogIsFilteredByTimeAndPaged(t *testing.T) {
	f := start(t)
	if got := f.audited(""); len(got) != 0 {
		t.Errorf("an empty log has %+v", got)
	}
	const n = 6000
	day := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	f.addActions(day, n) // 4 days and 4 hours
	objects := func(q string) string {
		var out []string
		for _, a := range f.audited(q) {
			out = append(out, a.Object)
		}
		return strings.Join(out, " ")
	}
	for q, want := range map[string]string{
		"at:2026-03-01T02:00:00Z..2026-03-01T02:02:30Z":            "a120 a121 a122",
		"at:2026-03-01T02:00:00Z..2026-03-01T02:02:30Z actor:ops1": "a121",
		"at:<2026-03-01T00:02:00Z":                                 "a0 a1",
		"at:>=2026-03-05T03:58:00Z":                                "a5998 a5999",
		"object:a77":                                               "", // further back than one request looks
		"object:a5000":                                             "a5000",
		"action:token.*":                                           "", "at:>2027-01-01": "",
	} {
		if got := objects(q); got != want {
			t.Errorf("%s: got %q, want %q", q, got, want)
		}
	}
	seen, pages, q := 0, 0, client.ListQuery{Q: "actor:ops0", Limit: 500}
	for {
		page, err := f.client.Sums().Audit(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if pages++; page.Next == nil {
			seen += len(page.Items)
			break
		}
		seen, q.Cursor = seen+len(page.Items), *page.Next
	}
	if seen != n/3 || pages > 6 {
		t.Errorf("read %d actions in %d pages, want %d", seen, pages, n/3)
	}
	f.wantCode("cursor", f.call("GET /v1/audit?cursor=x", ""), 422, mailroom.CodeInvalid)
	f.wantCode("filter", f.call("GET /v1/audit?q=nothing:x", ""), 422, mailroom.CodeInvalid)
}
