package client

import (
	"context"
	"net/http"

	"mailroom/api"
)

// Alerts returns the targets and the rules of the server's alerts.
func (a Accounts) Alerts(ctx context.Context) (api.Alerts, error) {
	return get[api.Alerts](ctx, a.c, "/v1/alerts", nil)
}

// TestAlert makes a target of alerts send a test message. The end of the run says whether the target took
// it. An unknown target is not_found.
func (a Accounts) TestAlert(ctx context.Context, target string) (api.TestedAlert, error) {
	return ask[api.TestedAlert](ctx, a.c, request{method: http.MethodPost, path: "/v1/alerts/test",
		body: api.TestAlert{Target: target}})
}

// PutRule creates or replaces the rule with this name. The rule is about all threads if the token has the scope
// admin, and otherwise about the token's own threads.
func (a Accounts) PutRule(ctx context.Context, rule api.AlertRule) (api.AlertRule, error) {
	return ask[api.AlertRule](ctx, a.c, request{method: http.MethodPost, path: "/v1/alerts/rules", body: rule})
}

// DeleteRule removes a rule that PutRule made.
func (a Accounts) DeleteRule(ctx context.Context, name string) error {
	return a.c.call(ctx, request{method: http.MethodDelete, path: path("v1", "alerts", "rules", name)}, nil)
}

// Question returns the ticket that a link in an alert names. The link authorizes the call, so the client needs no
// token.
func (a Accounts) Question(ctx context.Context, link string) (api.Question, error) {
	return ask[api.Question](ctx, a.c, request{method: http.MethodPost, path: "/v1/question",
		body: api.QuestionLink{Link: link}})
}

// DecideQuestion decides the ticket of a link in an alert, as [Client.Decide] decides a ticket.
func (a Accounts) DecideQuestion(ctx context.Context, in api.QuestionDecision) (api.Question, error) {
	return ask[api.Question](ctx, a.c, request{method: http.MethodPost, path: "/v1/question/decision", body: in})
}
