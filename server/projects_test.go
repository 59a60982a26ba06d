package server_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/client"
	"mailroom/entry"
	"mailroom/project"
)

func TestReservationsOverTheWire(t *testing.T) {
	f := start(t)
	ctx := t.Context()
	out, err := f.client.Projects.Reserve(ctx, api.Reserve{Project: "p", Names: []string{"src/**", "a"}, Holder: "x",
		TTL: "30m", Reason: "refactoring"})
	if err != nil || len(out.Granted) != 2 || out.Granted[0].Project != "p" || out.Granted[0].Reason != "refactoring" ||
		out.Granted[1].Fence <= out.Granted[0].Fence {
		t.Fatalf("granted %+v, %v", out, err)
	}
	if left := time.Until(out.Granted[0].ExpiresAt); left > 30*time.Minute || left < 29*time.Minute {
		t.Errorf("expires in %v", left)
	}
	_, err = f.client.Projects.Reserve(ctx, api.Reserve{Project: "p", Names: []string{"src/main.go"}, Holder: "y"})
	held, ok := errors.AsType[*project.ReservedError](err)
	if mailroom.CodeOf(err) != mailroom.CodeConflict || !ok || held.By[0].Holder != "x" ||
		!held.By[0].ExpiresAt.Equal(out.Granted[0].ExpiresAt) {
		t.Errorf("error %v, reservations %+v", err, held)
	}
	if !strings.Contains(err.Error(), "src/** is reserved by x until ") {
		t.Errorf("error %q", err)
	}
	advisory, err := f.client.Projects.Reserve(ctx, api.Reserve{Project: "p", Names: []string{"src/main.go"}, Holder: "y",
		Advisory: true})
	if err != nil || len(advisory.Conflicts) != 1 || advisory.Conflicts[0].ID != out.Granted[0].ID {
		t.Errorf("advisory: %+v, %v", advisory, err)
	}
	renewed, err := f.client.Projects.RenewReservation(ctx, out.Granted[1].ID, api.ReservationRenewal{TTL: "2h"})
	if err != nil || !renewed.ExpiresAt.After(out.Granted[1].ExpiresAt) {
		t.Errorf("renewed: %+v, %v", renewed, err)
	}
	if err := f.client.Projects.Release(ctx, out.Granted[1].ID, false); err != nil {
		t.Error(err)
	}
	if err := f.client.Projects.Release(ctx, out.Granted[1].ID, false); mailroom.CodeOf(err) != mailroom.CodeNotFound {
		t.Errorf("second release: %v", err)
	}
	ended, err := f.client.Projects.ReleaseNames(ctx,
		api.ReleaseNames{Project: "p", Holder: "x", Names: []string{"src/**", "never"}})
	if err != nil || len(ended) != 1 {
		t.Errorf("ended %+v, %v", ended, err)
	}
	if all, err := f.client.Projects.Reservations(ctx, "p"); err != nil || len(all) != 1 || all[0].Holder != "y" {
		t.Errorf("reservations %+v, %v", all, err)
	}
}

func TestNotificationsOverTheWire(t *testing.T) {
	f := start(t)
	ctx := t.Context()
	take := func(agent string) []api.Notification {
		t.Helper()
		found, err := f.client.Projects.TakeNotifications(ctx, api.Take{Agent: agent})
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if got := take("y"); len(got) != 0 {
		t.Errorf("a new inbox has %+v", got)
	}
	in := api.Notify{From: "x", Event: "built", Data: json.RawMessage(`{"ok":true}`), Key: "k"}
	for range 2 {
		if out, err := f.client.Projects.Notify(ctx, in); err != nil || out.Seq != 1 || out.Project != "default" ||
			fmt.Sprint(out.To) != "[y]" {
			t.Errorf("notified %+v, %v", out, err)
		}
	}
	f.wantCode("two keys", f.call("POST /v1/notifications", `{"from":"x","event":"built","key":"k"}`,
		"Idempotency-Key: other"), 422, mailroom.CodeInvalid)
	seen, err := f.client.Projects.Notifications(ctx, "", "y", 0)
	if err != nil || len(seen) != 1 || seen[0].From != "x" || seen[0].Event != "built" ||
		string(seen[0].Data) != `{"ok":true}` {
		t.Errorf("seen %+v, %v", seen, err)
	}
	if err := f.client.Projects.Acknowledge(ctx, api.Acknowledge{Agent: "y", Seqs: []int64{1}}); err != nil {
		t.Error(err)
	}
	if got := take("y"); len(got) != 0 {
		t.Errorf("an acknowledged notification is unread: %+v", got)
	}
	if err := f.client.Projects.Acknowledge(ctx, api.Acknowledge{Agent: "y",
		Seqs: []int64{7}}); mailroom.CodeOf(err) != mailroom.CodeInvalid {
		t.Errorf("acknowledge of an unknown notification: %v", err)
	}
	// The project's log is the log of a thread.
	entries, err := f.client.Entries(ctx, "project:default", client.EntriesQuery{})
	if err != nil || len(entries.Items) != 1 || entries.Items[0].Kind != entry.KindNotification {
		t.Errorf("log %+v, %v", entries, err)
	}
}

func TestAProjectNeedsAccess(t *testing.T) {
	f := start(t)
	ann := f.withToken(f.createToken("ann", "", scopesWithout("")...))
	eve := f.withToken(f.createToken("eve", "", scopesWithout("")...))
	out := mustCall[api.Reserved](ann, "POST /v1/reservations", `{"project":"p","names":["a"],"holder":"x"}`)
	mustCall[api.Notified](ann, "POST /v1/notifications", `{"project":"p","from":"x","event":"e","to":["y"]}`)
	bob := f.withToken(f.createToken("bob", "project:p", auth.PermissionRead, auth.PermissionSubmit))
	before := f.snapshot()
	for route, body := range map[string]string{
		"POST /v1/reservations":                                 `{"project":"p","names":["b"],"holder":"e"}`,
		"POST /v1/notifications":                                `{"project":"p","from":"e","event":"e"}`,
		"POST /v1/notifications/take":                           `{"project":"p","agent":"y"}`,
		"DELETE /v1/reservations/" + out.Granted[0].ID:          "",
		"POST /v1/reservations/" + out.Granted[0].ID + "/renew": `{}`,
	} {
		eve.wantCode("another token: "+route, eve.call(route, body), 404, mailroom.CodeNotFound)
	}
	// As of a project without an entry.
	eve.wantCode("acknowledge", eve.call("POST /v1/notifications/acknowledge", `{"project":"p","agent":"y","seqs":[1]}`),
		422, mailroom.CodeInvalid)
	if got := mustCall[api.Page[api.Notification]](eve, "GET /v1/notifications?project=p&agent=y",
		""); len(got.Items) != 0 {
		t.Errorf("another token reads %+v", got.Items)
	}
	for _, route := range []string{"GET /v1/reservations", "GET /v1/reservations?project=p"} {
		if got := mustCall[api.Page[api.Reservation]](eve, route, ""); len(got.Items) != 0 {
			t.Errorf("another token sees %+v", got.Items)
		}
		if got := mustCall[api.Page[api.Reservation]](bob, route, ""); len(got.Items) != 1 {
			t.Errorf("a token with the namespace sees %+v", got.Items)
		}
	}
	if got := mustCall[api.Released](eve, "POST /v1/reservations/release",
		`{"project":"p","names":["a"],"holder":"x"}`); len(got.Released) != 0 {
		t.Errorf("another token released %+v", got.Released)
	}
	if after := f.snapshot(); after != before {
		t.Errorf("refused requests changed\n%s to\n%s", before, after)
	}
	f.wantCode("another token's", bob.call("DELETE /v1/reservations/"+out.Granted[0].ID+"?force=true", ""), 403,
		mailroom.CodeForbidden)
	f.wantCode("an admin without force", f.call("DELETE /v1/reservations/"+out.Granted[0].ID, ""), 403,
		mailroom.CodeForbidden)
	if got := f.call("DELETE /v1/reservations/"+out.Granted[0].ID+"?force=true", ""); got.status != 204 {
		t.Errorf("an admin with force: %d %s", got.status, got.body)
	}
}

func badProjects() []badInput {
	return []badInput{
		{"POST /v1/reservations", `{"names":[],"holder":"x"}`, 422, "body.names", ""},
		{"POST /v1/reservations", `{"names":["a"],"holder":"x/y"}`, 422, "body.holder", ""},
		{"POST /v1/reservations", `{"names":["a"],"holder":"x","ttl":"long"}`, 422, "body.ttl", ""},
		{"POST /v1/reservations", `{"names":["a"],"holder":"x","ttl":"8760h"}`, 422, "body.ttl", ""},
		{"POST /v1/reservations", `{"names":["a"],"holder":"x","project":"a/b"}`, 422, "body.project", ""},
		{"POST /v1/reservations", `{"names":["a"],"holder":"x","force":true}`, 422, "body.force", ""},
		{"GET /v1/reservations?project=a/b", ``, 422, "query.project", ""},
		{"POST /v1/notifications", `{"from":"","event":"e"}`, 422, "body.from", ""},
		{"POST /v1/notifications", `{"from":"x","event":""}`, 422, "body.event", ""},
		{"GET /v1/notifications", ``, 422, "query.agent", ""},
		{"GET /v1/notifications?agent=x&limit=501", ``, 422, "query.limit", ""},
		{"POST /v1/notifications/take", `{"agent":""}`, 422, "body.agent", ""},
		{"POST /v1/notifications/acknowledge", `{"agent":"x","seqs":[]}`, 422, "body.seqs", ""},
	}
}

func TestUnreadNotificationsAreAQuota(t *testing.T) {
	f := start(t)
	ann := f.withToken(f.createToken("ann", "project:p", auth.PermissionRead, auth.PermissionSubmit))
	if _, err := f.client.Accounts().SetQuotas(t.Context(), "ann", auth.Quotas{auth.QuotaNotifications: 3}); err != nil {
		t.Fatal(err)
	}
	mustCall[api.Notified](f, "POST /v1/notifications", `{"project":"p","from":"x","event":"e","to":["y"]}`)
	notify := func() response {
		return ann.call("POST /v1/notifications", `{"project":"p","from":"a","event":"e"}`)
	}
	if a := notify(); a.status != 201 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	a := notify()
	p := a.problem(t)
	if a.status != 403 || p.Code != mailroom.CodeQuotaExceeded ||
		!strings.Contains(p.Detail, "ann has 2 of 3 unread notifications, and this one has 2 recipients") {
		t.Errorf("%d %s, want 403 with limit and use", a.status, a.body)
	}
	tokens, err := f.client.Accounts().Tokens(t.Context())
	if err != nil || tokens[0].Used.Notifications != 2 || tokens[0].Quotas[auth.QuotaNotifications] != 3 {
		t.Errorf("tokens: %+v, %v, want use and limit", tokens, err)
	}
	if metrics := f.call("GET /metrics", "").body; !strings.Contains(metrics,
		"\n"+`mailroom_quota_used{quota="notifications"} 2`+"\n") {
		t.Error("the metrics lack the token's use")
	}
	mustCall[api.Page[api.Notification]](f, "POST /v1/notifications/take", `{"project":"p","agent":"y"}`)
	if a := notify(); a.status != 201 {
		t.Errorf("notify after one inbox was read: %d %s", a.status, a.body)
	}
}
