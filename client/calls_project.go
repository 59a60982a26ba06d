package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"mailroom/api"
)

// Projects has the calls for agents that coordinate in a project: reservations and
// notifications.
type Projects struct{ c *Client }

// Reserve reserves names in a project. A conflict has the code [mailroom.CodeConflict] and
// lists their holders in its message.
func (p Projects) Reserve(ctx context.Context, in api.Reserve) (api.Reserved, error) {
	return ask[api.Reserved](ctx, p.c, request{method: http.MethodPost, path: "/v1/reservations", body: in})
}

// Reservations returns the current reservations of a project. If project is "", it returns those of all projects that
// the token may see.
func (p Projects) Reservations(ctx context.Context, project string) ([]api.Reservation, error) {
	return Collect(ctx, func(ctx context.Context, q ListQuery) (api.Page[api.Reservation], error) {
		v := url.Values{}
		put(v, "project", project)
		put(v, "cursor", q.Cursor)
		return get[api.Page[api.Reservation]](ctx, p.c, "/v1/reservations", v)
	}, ListQuery{})
}

// RenewReservation extends a reservation. The error is not_found if the reservation has ended.
func (p Projects) RenewReservation(ctx context.Context, id string, in api.ReservationRenewal) (api.Reservation, error) {
	return ask[api.Reservation](ctx, p.c, request{method: http.MethodPost, path: path("v1", "reservations", id, "renew"),
		body: in})
}

// Release ends a reservation. If force is set and the token has the scope admin, the reservation may belong to
// another holder.
func (p Projects) Release(ctx context.Context, id string, force bool) error {
	q := url.Values{}
	if force {
		q.Set("force", "true")
	}
	return p.c.call(ctx, request{method: http.MethodDelete, path: path("v1", "reservations", id), query: q}, nil)
}

// ReleaseNames ends the reservations that an agent holds under these names, and
// returns them.
func (p Projects) ReleaseNames(ctx context.Context, in api.ReleaseNames) ([]api.Reservation, error) {
	out, err := ask[api.Released](ctx, p.c, request{method: http.MethodPost, path: "/v1/reservations/release", body: in})
	return out.Released, err
}

// Notify sends a notification to the other agents of a project.
func (p Projects) Notify(ctx context.Context, in api.Notify) (api.Notified, error) {
	return ask[api.Notified](ctx, p.c, request{method: http.MethodPost, path: "/v1/notifications", body: in})
}

// Notifications returns the unread notifications of an agent, the oldest first, at most
// limit (0: 50). They stay unread.
func (p Projects) Notifications(ctx context.Context, project, agent string, limit int) ([]api.Notification, error) {
	if limit <= 0 {
		limit = 50
	}
	var all []api.Notification
	for after := ""; ; {
		q := url.Values{"agent": {agent}, "limit": {strconv.Itoa(limit - len(all))}}
		put(q, "project", project)
		put(q, "after", after)
		page, err := get[api.Page[api.Notification]](ctx, p.c, "/v1/notifications", q)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if page.Next == nil || len(all) >= limit {
			return all, nil
		}
		after = *page.Next
	}
}

// TakeNotifications returns the unread notifications of an agent and marks them as read. They are read even if the
// answer is lost.
func (p Projects) TakeNotifications(ctx context.Context, in api.Take) ([]api.Notification, error) {
	page, err := ask[api.Page[api.Notification]](ctx, p.c,
		request{method: http.MethodPost, path: "/v1/notifications/take", body: in})
	return page.Items, err
}

// Acknowledge marks notifications of an agent as read.
func (p Projects) Acknowledge(ctx context.Context, in api.Acknowledge) error {
	return p.c.call(ctx, request{method: http.MethodPost, path: "/v1/notifications/acknowledge", body: in}, nil)
}
