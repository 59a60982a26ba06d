package client

import (
	"context"
	"net/http"

	"mailroom/api"
)

// Push returns what a browser needs to subscribe to alerts, and the browsers that did. It is not_found if the
// server has no target of kind push.
func (a Accounts) Push(ctx context.Context) (api.Push, error) {
	return get[api.Push](ctx, a.c, "/v1/push", nil)
}

// SubscribePush subscribes a browser to alerts, or changes its subscription. Too many subscriptions are a
// quota error.
func (a Accounts) SubscribePush(ctx context.Context, in api.NewPushSubscription) (api.PushSubscribed, error) {
	return ask[api.PushSubscribed](ctx, a.c, request{method: http.MethodPost, path: "/v1/push/subscriptions", body: in})
}

// UnsubscribePush ends the subscription of a browser. It is a conflict while an alert is sent to it.
func (a Accounts) UnsubscribePush(ctx context.Context, id string) error {
	return a.c.call(ctx, request{method: http.MethodDelete, path: path("v1", "push", "subscriptions", id)}, nil)
}
