package operate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"mailroom"
	"mailroom/alert"
	"mailroom/alert/webpush"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/ledger"
	"mailroom/server/internal/request"
	"mailroom/store"
	"mailroom/thread"
)

// Bounds of the subscriptions of browsers.
const (
	maxSubscriptionsEach = 20  // most subscriptions of one token name
	maxSubscriptions     = 100 // most subscriptions of all names, at most [alert.MaxSubscribers]
)

// PushTarget is the target of alerts that browsers subscribe to.
type PushTarget interface {
	Name() string
	// Subscribers is the prefix of the ids of the subscribers' threads, see [alert.Spreader].
	Subscribers() string
	// PublicKey returns the key that browsers subscribe to, see [webpush.Key].
	PublicKey() (string, error)
	// Check returns an error of code invalid or too_large unless a message can be sent to a subscription.
	Check(*webpush.Subscription) error
}

// Threads is the part of a ledger that changes threads, such as the threads of subscribers.
type Threads interface {
	// PatchThread changes the agent, the metadata or the delivery of a thread.
	PatchThread(ctx context.Context, thread string, p thread.Patch) (*mailroom.Thread, error)
	// DeleteThread deletes an idle thread that who sees; one with open runs is a conflict.
	DeleteThread(ctx context.Context, thread string, who *auth.Token) error
	// Interrupt supersedes the queue of a thread that who sees, and stops its current run.
	Interrupt(ctx context.Context, thread string, who *auth.Token) (thread.Interrupted, error)
}

// Subscribers is the part of a ledger that makes the threads of subscribers.
type Subscribers interface {
	// Open creates a thread, or replaces the agent and the metadata of the one that exists. Openings of one group
	// are serialized, so that in.Admit can bound it.
	Open(ctx context.Context, in ledger.Opening) (*mailroom.Thread, error)
}

// PushHandlers serve the subscriptions of browsers. Each is a thread whose metadata is a
// [webpush.Subscription].
type PushHandlers struct {
	target   PushTarget // nil: browsers cannot subscribe
	operator *auth.Token
	ledger   Subscribers
	threads  Threads
	find     request.Lookup
	log      *slog.Logger
}

func (h *PushHandlers) check() error {
	if h.target == nil {
		return mailroom.Errorf(mailroom.CodeNotFound,
			"this server has no target of kind push: add one with `mailroom notify add push`")
	}
	return nil
}

// subscribed is a browser as the store has it.
type subscribed struct {
	thread *mailroom.Thread
	gone   bool // the subscription gets no further alerts
	webpush.Subscription
}

// all returns the subscriptions, the newest first.
func (h *PushHandlers) all(ctx context.Context) (found []subscribed, err error) {
	err = h.find.View(ctx, func(rd store.Reader) error {
		rows, err := rd.Threads(store.ThreadQuery{Prefix: h.target.Subscribers(), Limit: ledger.MaxGroup})
		if err != nil {
			return err
		}
		gone, err := alert.GoneSubscribers(rd, rows, h.operator, time.Now())
		found = make([]subscribed, 0, len(rows))
		for _, t := range rows {
			found = append(found, subscribed{t, gone[t.ID] != "", subscriptionOf(t)})
		}
		return err
	})
	slices.SortStableFunc(found, func(a, b subscribed) int { return b.CreatedAt.Compare(a.CreatedAt) })
	return found, err
}

// subscriptionOf decodes the metadata of a thread. An operator may have changed it, so what is missing is
// empty.
func subscriptionOf(t *mailroom.Thread) webpush.Subscription {
	var s webpush.Subscription
	if json.Unmarshal(t.Metadata, &s) != nil || s.CreatedAt.IsZero() {
		s = webpush.Subscription{By: s.By, Token: s.Token, CreatedAt: t.CreatedAt}
	}
	return s
}

func (h *PushHandlers) Show(ctx context.Context, _ *empty) (*body[api.Push], error) {
	if err := h.check(); err != nil {
		return nil, err
	}
	key, err := h.target.PublicKey()
	if err != nil {
		return nil, &mailroom.Error{
			Code: mailroom.CodeUnavailable, Cause: err,
			Message: fmt.Sprintf("the private key of target %s cannot be read: see the log of the server", h.target.Name()),
		}
	}
	found, err := h.all(ctx)
	if err != nil {
		return nil, err
	}
	out := api.Push{PublicKey: key, Target: h.target.Name(), Subscriptions: []api.PushSubscription{}}
	for _, s := range found {
		out.Subscriptions = append(out.Subscriptions, api.PushSubscription{
			ID: strings.TrimPrefix(s.thread.ID, h.target.Subscribers()), Client: request.Given(s.Client), By: s.By,
			CreatedAt: s.CreatedAt, Gone: s.gone,
		})
	}
	return &body[api.Push]{out}, nil
}

type subscribeInput struct {
	UserAgent string `header:"User-Agent" maxLength:"2000" doc:"Names the browser in lists."`
	Body      api.NewPushSubscription
}

func (h *PushHandlers) Subscribe(ctx context.Context, in *subscribeInput) (*body[api.PushSubscribed], error) {
	if err := h.check(); err != nil {
		return nil, err
	}
	who := request.CallerOf(ctx)
	session, err := h.SessionOf(ctx, who)
	switch {
	case err != nil:
		return nil, err
	case session == "" && who.Terms.Kind != auth.KindToken: // the session ended since the request began
		return nil, request.ErrRevoked()
	}
	s := &webpush.Subscription{
		Endpoint: in.Body.Endpoint, P256DH: in.Body.Keys.P256DH, Auth: in.Body.Keys.Auth,
		Client: request.BrowserOf(in.UserAgent), By: who.Name, Token: session, CreatedAt: time.Now().UTC(),
	}
	if err := h.target.Check(s); err != nil {
		return nil, request.Locate("body.", err)
	}
	id := subscriptionID(s.Endpoint)
	ctx = ledger.WithAction(ctx, &ledger.Action{Name: "push.subscribe", ObjectKind: "browser", Object: id,
		Detail: map[string]string{"client": s.Client, "target": h.target.Name()}})
	if err := h.open(ctx, id, s); err != nil {
		return nil, err
	}
	return &body[api.PushSubscribed]{api.PushSubscribed{ID: id}}, nil
}

// Adopt names the operator's present token in subscriptions of the operator that name none.
func (h *PushHandlers) Adopt(ctx context.Context) error {
	if h.target == nil {
		return nil
	}
	found, err := h.all(ctx)
	for _, s := range found {
		if adopted := alert.AdoptedMetadata(s.thread.Metadata, h.operator); adopted != nil {
			_, patched := h.threads.PatchThread(ctx, s.thread.ID, thread.Patch{Metadata: adopted})
			err = errors.Join(err, ignoreMissing(patched))
		}
	}
	return err
}

// SessionOf returns the name of the row of a token that acts for another one, such as a session, and the ID of the
// operator's own token. It is "" for other tokens, and if the row is gone.
func (h *PushHandlers) SessionOf(ctx context.Context, who *auth.Token) (name string, err error) {
	switch {
	case who.Terms.Kind == auth.KindToken && who.Name == auth.Operator:
		return who.ID(), nil
	case who.Terms.Kind == auth.KindToken:
		return "", nil
	}
	err = h.find.View(ctx, func(rd store.Reader) error {
		rows, err := rd.Tokens()
		for _, t := range rows {
			if t.Sum == who.Sum {
				name = t.Name
			}
		}
		return err
	})
	return name, err
}

// subscriptionID returns the id of a subscription: the first 32 hexadecimal digits of the SHA-256 of its
// endpoint, so that a browser finds its own.
func subscriptionID(endpoint string) string {
	sum := sha256.Sum256([]byte(endpoint))
	return hex.EncodeToString(sum[:16])
}

// open stores a subscription. If there are too many, those that are gone are dropped first.
func (h *PushHandlers) open(ctx context.Context, id string, s *webpush.Subscription) error {
	metadata, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode the subscription: %w", err)
	}
	thread := h.target.Subscribers() + id
	opening := ledger.Opening{
		Thread: thread, Agent: alert.AgentName(h.target.Name()), Metadata: metadata, Group: h.target.Subscribers(),
		Admit: func(others []*mailroom.Thread) error { return admitSubscriber(s.By, others) },
	}
	// A browser that subscribes again is not gone any more.
	if err := h.dropGone(ctx, func(t subscribed) bool { return t.thread.ID == thread }); err != nil {
		return err
	}
	if _, err = h.ledger.Open(ctx, opening); mailroom.CodeOf(err) != mailroom.CodeQuotaExceeded {
		return err
	}
	if err := h.dropGone(ctx, func(subscribed) bool { return true }); err != nil {
		return err
	}
	_, err = h.ledger.Open(ctx, opening)
	return err
}

// admitSubscriber returns an error if the existing subscriptions others leave no room for one more of the token by.
func admitSubscriber(by string, others []*mailroom.Thread) error {
	own := 0
	for _, t := range others {
		if subscriptionOf(t).By == by {
			own++
		}
	}
	switch {
	case own >= maxSubscriptionsEach:
		return mailroom.Errorf(mailroom.CodeQuotaExceeded,
			"%s has %d subscribed browsers, and no more are allowed: remove one first", request.Truncate(by), own)
	case len(others) >= maxSubscriptions:
		return mailroom.Errorf(mailroom.CodeQuotaExceeded,
			"there are %d subscribed browsers, and no more are allowed: remove one first", len(others))
	}
	return nil
}

// dropGone deletes the subscriptions that are gone and for which selected returns true.
func (h *PushHandlers) dropGone(ctx context.Context, selected func(subscribed) bool) error {
	found, err := h.all(ctx)
	if err != nil {
		return err
	}
	for _, s := range found {
		if !s.gone || !selected(s) {
			continue
		}
		err := h.drop(ctx, s.thread.ID)
		if err != nil && mailroom.CodeOf(err) != mailroom.CodeConflict { // conflict: the thread still has alerts that fail
			return err
		}
	}
	return nil
}

// drop deletes a subscription. Alerts that wait for it are not sent. It is a conflict while one is sent.
func (h *PushHandlers) drop(ctx context.Context, thread string) error {
	who := request.CallerOf(ctx)
	err := h.threads.DeleteThread(ctx, thread, who)
	if mailroom.CodeOf(err) != mailroom.CodeConflict {
		return ignoreMissing(err)
	}
	if _, err := h.threads.Interrupt(ctx, thread, who); err != nil {
		return ignoreMissing(err)
	}
	return ignoreMissing(h.threads.DeleteThread(ctx, thread, who))
}

// ignoreMissing returns nil for the error that a thread does not exist, for example because another request
// deleted it.
func ignoreMissing(err error) error {
	if mailroom.CodeOf(err) == mailroom.CodeNotFound {
		return nil
	}
	return err
}

type unsubscribeInput struct {
	Subscription string `path:"subscription" doc:"Id of a subscription."`
}

func (h *PushHandlers) Unsubscribe(ctx context.Context, in *unsubscribeInput) (*empty, error) {
	if err := h.check(); err != nil {
		return nil, err
	}
	t, err := h.find.Thread(ctx, h.target.Subscribers()+in.Subscription)
	if mailroom.CodeOf(err) == mailroom.CodeNotFound {
		return nil, mailroom.Errorf(mailroom.CodeNotFound, "no subscription %q", request.Truncate(in.Subscription))
	}
	if err != nil {
		return nil, err
	}
	if err := h.drop(ctx, t.ID); mailroom.CodeOf(err) == mailroom.CodeConflict {
		return nil, mailroom.Errorf(mailroom.CodeConflict, "an alert is sent to this browser now: try again in some seconds")
	} else if err != nil {
		return nil, err
	}
	return nil, nil
}

// DropOf deletes the subscriptions of a token or a session that has ended. What is left after an error gets no
// further alerts either, but is listed until it makes room for another one.
func (h *PushHandlers) DropOf(ctx context.Context, name string) {
	if h.target == nil {
		return
	}
	found, err := h.all(ctx)
	for _, s := range found {
		if s.By == name || s.Token == name && name != "" {
			err = errors.Join(err, h.drop(ctx, s.thread.ID))
		}
	}
	if err != nil {
		h.log.WarnContext(ctx, "subscriptions of a revoked token not removed; they get no alerts",
			"token", name, "error", err)
	}
}
