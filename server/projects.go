package server

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"mailroom/api"
	"mailroom/auth"
	"mailroom/ledger"
	"mailroom/project"
	"mailroom/server/internal/request"
	"mailroom/store"
)

// Projects is the part of a ledger for reservations and notifications.
type Projects interface {
	Reserve(ctx context.Context, in project.Reserve) (project.Reserved, error)
	RenewReservation(ctx context.Context, id string, by *auth.Token, ttl time.Duration) (store.Reservation, error)
	Release(ctx context.Context, id string, by *auth.Token, force bool) (store.Reservation, error)
	ReleaseNames(ctx context.Context, project, holder string, names []string, by *auth.Token) ([]store.Reservation, error)
	Reservations(ctx context.Context, project string, who *auth.Token) ([]store.Reservation, error)
	Notify(ctx context.Context, in project.Notify) (ledger.Notified, error)
	Inbox(ctx context.Context, in ledger.InboxQuery) (ledger.InboxPage, error)
	Acknowledge(ctx context.Context, project, agent string, by *auth.Token, seqs []int64) error
}

// projectHandlers serve reservations and notifications.
type projectHandlers struct {
	ledger  Projects
	maxPage int // bytes
}

// projectOr returns name, or the default project for "".
func projectOr(name string) string { return cmp.Or(name, project.Default) }

type reserveInput struct{ Body api.Reserve }

func (h *projectHandlers) reserve(ctx context.Context, in *reserveInput) (*body[api.Reserved], error) {
	b := in.Body
	ttl, err := api.ReadDuration("body.ttl", b.TTL)
	if err != nil {
		return nil, err
	}
	out, err := h.ledger.Reserve(ctx, project.Reserve{
		Project: projectOr(b.Project), Names: b.Names, Holder: b.Holder, By: requestOf(ctx).who,
		Shared: b.Shared, Advisory: b.Advisory, Reason: b.Reason, TTL: ttl,
	})
	if err != nil {
		return nil, request.Locate("body.", err)
	}
	return &body[api.Reserved]{api.Reserved{Granted: showReservations(out.Granted),
		Conflicts: showReservations(out.Conflicts)}}, nil
}

func showReservations(rows []store.Reservation) []api.Reservation {
	out := make([]api.Reservation, 0, len(rows))
	for _, r := range rows {
		out = append(out, api.NewReservation(r))
	}
	return out
}

type listReservationsInput struct {
	Cursor  string `query:"cursor" doc:"The next of the previous page."`
	Project string `query:"project" doc:"Default: all projects that the token sees."`
	Limit   int    `query:"limit" minimum:"1" maximum:"500" default:"500" doc:"Reservations of the page at most."`
}

func (h *projectHandlers) listReservations(
	ctx context.Context, in *listReservationsInput,
) (*body[api.Page[api.Reservation]], error) {
	rows, err := h.ledger.Reservations(ctx, in.Project, requestOf(ctx).who)
	if err != nil {
		return nil, request.Locate("query.", err)
	}
	items := showReservations(rows)
	bound := request.PageBound{Items: in.Limit, Bytes: h.maxPage}
	page, err := request.PageAfter(items, in.Cursor, bound, func(r api.Reservation) string {
		return fmt.Sprintf("%s\x00%020d\x00%s", r.Project, r.Fence, r.ID)
	})
	return &body[api.Page[api.Reservation]]{page}, err
}

// ReservationPath is the reservation id in a path.
type ReservationPath struct {
	Reservation string `path:"reservation" doc:"Id of a reservation."`
}

type renewReservationInput struct {
	ReservationPath
	Body api.ReservationRenewal
}

func (h *projectHandlers) renewReservation(
	ctx context.Context, in *renewReservationInput,
) (*body[api.Reservation], error) {
	ttl, err := api.ReadDuration("body.ttl", in.Body.TTL)
	if err != nil {
		return nil, err
	}
	row, err := h.ledger.RenewReservation(ctx, in.Reservation, requestOf(ctx).who, ttl)
	if err != nil {
		return nil, request.Locate("body.", err)
	}
	return &body[api.Reservation]{api.NewReservation(row)}, nil
}

type releaseInput struct {
	ReservationPath
	Force bool `query:"force" doc:"End a reservation of another token. Needs the scope admin."`
}

func (h *projectHandlers) release(ctx context.Context, in *releaseInput) (*empty, error) {
	_, err := h.ledger.Release(ctx, in.Reservation, requestOf(ctx).who, in.Force)
	return nil, err
}

type releaseNamesInput struct{ Body api.ReleaseNames }

func (h *projectHandlers) releaseNames(ctx context.Context, in *releaseNamesInput) (*body[api.Released], error) {
	b := in.Body
	ended, err := h.ledger.ReleaseNames(ctx, projectOr(b.Project), b.Holder, b.Names, requestOf(ctx).who)
	if err != nil {
		return nil, request.Locate("body.", err)
	}
	return &body[api.Released]{api.Released{Released: showReservations(ended)}}, nil
}

type notifyInput struct {
	Key  string `header:"Idempotency-Key" doc:"The same notification with the same key is sent once."`
	Body api.Notify
}

func (h *projectHandlers) notify(ctx context.Context, in *notifyInput) (*body[api.Notified], error) {
	b := in.Body
	key, err := submitKey(in.Key, b.Key)
	if err != nil {
		return nil, err
	}
	out, err := h.ledger.Notify(ctx, project.Notify{
		Project: projectOr(b.Project), By: requestOf(ctx).who, Key: key,
		Notification: project.Notification{From: b.From, To: b.To, Event: b.Event, Data: b.Data},
	})
	if err != nil {
		return nil, request.Locate("body.", err)
	}
	return &body[api.Notified]{api.Notified{Project: projectOr(b.Project), Seq: out.Seq,
		To: append([]string{}, out.To...)}}, nil
}

type listNotificationsInput struct {
	Project string `query:"project" default:"default" doc:"Name of the project."`
	Agent   string `query:"agent" required:"true" doc:"Agent whose inbox to read."`
	After   int64  `query:"after" minimum:"0" doc:"The next of the previous page: only notifications with a greater seq."`
	Limit   int    `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"Notifications of the page at most."`
}

func (h *projectHandlers) listNotifications(
	ctx context.Context, in *listNotificationsInput,
) (*body[api.Page[api.Notification]], error) {
	page, err := h.inbox(ctx, ledger.InboxQuery{Project: in.Project, Agent: in.Agent, Limit: in.Limit, After: in.After})
	return page, request.Locate("query.", err)
}

type takeNotificationsInput struct{ Body api.Take }

func (h *projectHandlers) takeNotifications(
	ctx context.Context, in *takeNotificationsInput,
) (*body[api.Page[api.Notification]], error) {
	b := in.Body
	page, err := h.inbox(ctx, ledger.InboxQuery{Project: projectOr(b.Project), Agent: b.Agent, Limit: cmp.Or(b.Limit, 50),
		Consume: true})
	return page, request.Locate("body.", err)
}

func (h *projectHandlers) inbox(ctx context.Context, in ledger.InboxQuery) (*body[api.Page[api.Notification]], error) {
	in.By, in.Bytes = requestOf(ctx).who, h.maxPage
	read, err := h.ledger.Inbox(ctx, in)
	if err != nil {
		return nil, err
	}
	out := api.Page[api.Notification]{Items: []api.Notification{}}
	for _, n := range read.Found {
		out.Items = append(out.Items, api.Notification{
			Seq: n.Seq, At: n.At, From: n.From, To: append([]string{}, n.To...), Event: n.Event, Data: n.Data,
		})
	}
	if read.Next > 0 && !in.Consume { // consumed notifications are read: the same request returns the rest
		next := strconv.FormatInt(read.Next, 10)
		out.Next = &next
	}
	return &body[api.Page[api.Notification]]{out}, nil
}

type acknowledgeInput struct{ Body api.Acknowledge }

func (h *projectHandlers) acknowledge(ctx context.Context, in *acknowledgeInput) (*empty, error) {
	b := in.Body
	return nil,
		request.Locate("body.", h.ledger.Acknowledge(ctx, projectOr(b.Project), b.Agent, requestOf(ctx).who, b.Seqs))
}
