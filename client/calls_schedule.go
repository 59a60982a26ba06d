package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/google/uuid"

	"mailroom/api"
)

// Schedules has the calls for schedules, which send a message at their times. An owner is the name of a token; "" is
// the client's own, and another one needs the scope admin.
type Schedules struct{ c *Client }

// List returns the schedules of an owner; "*" is all owners.
func (s Schedules) List(ctx context.Context, owner string) ([]api.Schedule, error) {
	return Collect(ctx, func(ctx context.Context, q ListQuery) (api.Page[api.Schedule], error) {
		v := ofOwner(owner)
		put(v, "cursor", q.Cursor)
		return get[api.Page[api.Schedule]](ctx, s.c, "/v1/schedules", v)
	}, ListQuery{})
}

// Get returns a schedule.
func (s Schedules) Get(ctx context.Context, owner, name string) (api.Schedule, error) {
	return get[api.Schedule](ctx, s.c, path("v1", "schedules", name), ofOwner(owner))
}

// Put makes a schedule of the client, or changes it.
func (s Schedules) Put(ctx context.Context, name string, spec api.ScheduleSpec) (api.ScheduleChanged, error) {
	return ask[api.ScheduleChanged](ctx, s.c, request{method: http.MethodPost, path: "/v1/schedules",
		body: api.PutSchedule{Name: name, Spec: spec}})
}

// PutOwn makes one of the own schedules of the thread spec.Thread, or changes the one of the name. The client must own
// the thread. The name in the answer is the one that the other calls take.
func (s Schedules) PutOwn(ctx context.Context, name string, spec api.ScheduleSpec) (api.ScheduleChanged, error) {
	return ask[api.ScheduleChanged](ctx, s.c, request{method: http.MethodPost, path: "/v1/schedules",
		body: api.PutSchedule{Name: name, Spec: spec, Own: true}})
}

// ListOwn returns the open own schedules of a thread.
func (s Schedules) ListOwn(ctx context.Context, thread string) ([]api.Schedule, error) {
	page, err := get[api.Page[api.Schedule]](ctx, s.c, "/v1/schedules", url.Values{"own": {thread}})
	return page.Items, err
}

// Pause pauses a schedule.
func (s Schedules) Pause(ctx context.Context, owner, name, note string) (api.ScheduleChanged, error) {
	return s.post(ctx, owner, name, "pause", api.PauseSchedule{Note: note})
}

// Resume ends the pause of a schedule. What was due in between is skipped.
func (s Schedules) Resume(ctx context.Context, owner, name string) (api.ScheduleChanged, error) {
	return s.post(ctx, owner, name, "resume", nil)
}

// Run sends the message of a schedule now, also while it is paused. It is repeated after a lost answer, and sends once.
func (s Schedules) Run(ctx context.Context, owner, name string) (api.ScheduleChanged, error) {
	return repeat[api.ScheduleChanged](ctx, s.c, request{method: http.MethodPost,
		path: path("v1", "schedules", name, "run"), query: ofOwner(owner),
		header: http.Header{"Idempotency-Key": {uuid.NewString()}}})
}

func (s Schedules) post(ctx context.Context, owner, name, verb string, body any) (api.ScheduleChanged, error) {
	return ask[api.ScheduleChanged](ctx, s.c, request{method: http.MethodPost, path: path("v1", "schedules", name, verb),
		query: ofOwner(owner), body: body})
}

// Delete deletes a schedule with its log. The runs that it sent go on.
func (s Schedules) Delete(ctx context.Context, owner, name string) error {
	r := request{method: http.MethodDelete, path: path("v1", "schedules", name), query: ofOwner(owner)}
	return s.c.call(ctx, r, nil)
}

func ofOwner(owner string) url.Values {
	v := url.Values{}
	put(v, "owner", owner)
	return v
}
