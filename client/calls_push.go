package client

import (
	"context"
	"net/http"

	"mailroom/api"
)

// Push returns the key that a browser needs to subscribe to alerts, and the browsers that have subscribed. The error
// is not_found if the server has no target of kind push.
func (a Accounts) Push(ctx context.Context) (api.Push, error) {
	return get[api.Push](ctx, a.c, "/v1/push", nil)
}

// SubscribePush subscribes a browser to alerts, or changes its subscription. The error has the code quota if there
// are too many subscriptions.
func (a Accounts) SubscribePush(ctx context.Context, in api.NewPushSubscription) (api.PushSubscribed, error) {
	return ask[api.PushSubscribed](ctx, a.c, request{method: http.MethodPost, path: "/v1/push/subscriptions", body: in})
}

// UnsubscribePush ends the subscription of a browser. The error is a conflict while an alert is being sent to that
// browser.
func (a Accounts) UnsubscribePush(ctx context.Context, id string) error {
	return a.c.call(ctx, request{method: http.MethodDelete, path: path("v1", "push", "subscriptions", id)}, nil)
}
