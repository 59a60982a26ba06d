package ws

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"mailroom"
	"mailroom/api"
	"mailroom/entry"
	"mailroom/internal/recovery"
	"mailroom/server/internal/request"
	"mailroom/stream"
)

// Subscription is one stream on a socket. Its internal request passes the same middleware and
// handler as a stream over HTTP; only the events go to the socket.
type Subscription struct {
	// Set once.
	socket  *socket
	id      string
	frameID json.RawMessage // id of the subscribing frame
	stop    context.CancelCauseFunc
	started chan struct{} // closed with the ack
	ended   chan struct{} // closed with its goroutine

	// Owned by its goroutine until that has ended.
	query   stream.Query
	cursor  string          // the reader's position
	settled mailroom.Status // final status of the run, from its last entry; "" if not seen
	blocked bool            // a frame was too slow to write
}

type subscriptionKey struct{}

// SubscriptionOf returns the subscription that a request serves, or nil.
func SubscriptionOf(ctx context.Context) *Subscription {
	sub, _ := ctx.Value(subscriptionKey{}).(*Subscription)
	return sub
}

var errUnsubscribed = errors.New("unsubscribed")

// subscribe starts the stream of r and returns once it is acknowledged or refused, so that the next
// frame can refer to it.
func (k *socket) subscribe(f frame, r *http.Request) error {
	k.subs++
	ctx, stop := context.WithCancelCause(r.Context())
	sub := &Subscription{
		socket: k, id: strconv.FormatInt(k.subs, 10), frameID: f.id, stop: stop,
		started: make(chan struct{}), ended: make(chan struct{}),
	}
	if !k.addSubscription(sub) {
		stop(nil)
		return context.Cause(k.ctx)
	}
	var refused *reply
	go func() {
		defer recovery.Handle(k.host.Log, "subscription", func(p *recovery.Panic) { k.end(p) })
		defer k.endSubscription(sub)
		defer stop(nil)
		a := k.exchange(r.WithContext(context.WithValue(ctx, subscriptionKey{}, sub)))
		if a.status >= http.StatusMultipleChoices {
			refused = a
		}
	}()
	select {
	case <-sub.started:
		return nil
	case <-sub.ended:
	}
	if refused == nil {
		return nil // the subscription started and ended at once
	}
	k.subs-- // the client never saw the id
	return k.out.send(k.errorAnswer(answer{ID: f.id}, refused))
}

// addSubscription registers a subscription. It returns false if the socket is closing.
func (k *socket) addSubscription(sub *Subscription) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return false
	}
	k.open[sub.id] = sub
	k.feeds.Add(1)
	return true
}

// endSubscription ends the goroutine of a subscription.
func (k *socket) endSubscription(sub *Subscription) {
	k.removeSubscription(sub)
	close(sub.ended)
	k.feeds.Done()
}

// removeSubscription removes a subscription. Those open when the socket ends stay for
// cursorSummary.
func (k *socket) removeSubscription(sub *Subscription) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ctx.Err() == nil {
		delete(k.open, sub.id)
	}
}

func (k *socket) unsubscribe(f frame) error {
	id, err := f.required("sub")
	if err == nil {
		err = f.checkDone()
	}
	if err != nil {
		return k.refuse(f, err)
	}
	k.mu.Lock()
	sub := k.open[id]
	k.mu.Unlock()
	if sub == nil {
		return k.refuse(f, mailroom.Errorf(mailroom.CodeNotFound, "no subscription %q on this socket", request.Truncate(id)))
	}
	sub.stop(errUnsubscribed)
	<-sub.ended // after the end, so that no event follows the ack
	return k.out.send(answer{Op: "ack", ID: f.id, Sub: id})
}

// cursorSummary lists the cursors of the subscriptions as "SUB=CURSOR", the blocked one first, as
// far as they fit into a close frame.
func (k *socket) cursorSummary() string {
	const room = 123
	k.mu.Lock()
	defer k.mu.Unlock()
	subs := make([]*Subscription, 0, len(k.open))
	for _, sub := range k.open {
		if sub.cursor != "" {
			subs = append(subs, sub)
		}
	}
	slices.SortFunc(subs, func(a, b *Subscription) int {
		if a.blocked != b.blocked {
			return map[bool]int{true: -1, false: 1}[a.blocked]
		}
		return cmp.Or(len(a.id)-len(b.id), strings.Compare(a.id, b.id))
	})
	summary := ""
	for _, sub := range subs {
		longer := strings.TrimPrefix(summary+" "+sub.id+"="+sub.cursor, " ")
		if len(longer) > room {
			break
		}
		summary = longer
	}
	return summary
}

// Follow serves a stream to the socket as the answer to request r: it acknowledges the subscription
// and sends the events of feed until the stream ends. An error refuses the subscription.
func (b *Subscription) Follow(
	w http.ResponseWriter, r *http.Request, start Start, feed func(context.Context, Sink) error,
) error {
	var result json.RawMessage
	q := start.Query
	if q.Run != "" { // the stream of a run begins with the run
		run, err := b.socket.host.Host.Run(r.Context(), q.Run)
		if err != nil {
			return err
		}
		if result, err = json.Marshal(api.Subscribed{Run: run.ID, Thread: run.Thread, Status: run.Status}); err != nil {
			return err
		}
	}
	b.query, b.cursor = q, start.After
	w.WriteHeader(http.StatusOK)
	ack := answer{Op: "ack", ID: b.frameID, Sub: b.id, Result: result}
	if start.Ack {
		ack.Cursor = start.After
	}
	if b.socket.out.send(ack) != nil {
		return nil // the socket ends
	}
	close(b.started)
	ctx, cancel := b.socket.host.Host.Authorize(r.Context())
	defer cancel()
	err := feed(ctx, b)
	if b.socket.ctx.Err() != nil || errors.Is(err, errUnsubscribed) {
		return nil // the close frame or the ack of unsubscribe says so
	}
	b.socket.removeSubscription(b) // before the last frame of the subscription
	if err != nil {
		b.sendError(r, err)
	} else if q.Until == stream.UntilSettled {
		b.sendSettled(r)
	}
	return nil
}

// sendError sends why the subscription ended early. If the token was revoked, the socket ends too.
func (b *Subscription) sendError(r *http.Request, err error) {
	p, retryAfter := b.socket.host.Host.Problem(r.Context(), err)
	raw, encode := json.Marshal(p)
	if encode != nil {
		raw = nil // cannot happen: NewProblem reduces values to plain ones
	}
	_ = b.socket.out.send(answer{Op: "error", Sub: b.id, Error: raw, RetryAfter: retryAfter}) // an error ends the socket
	if p.Code == mailroom.CodeUnauthenticated {
		b.socket.end(err)
	}
}

// sendSettled sends the status with which the run ended. The status comes from the entry of the end,
// or from the run's row if the reader started after that entry.
func (b *Subscription) sendSettled(r *http.Request) {
	if b.settled == "" {
		run, err := b.socket.host.Host.Run(r.Context(), b.query.Run)
		if err != nil {
			b.sendError(r, err)
			return
		}
		b.settled = run.Status
	}
	_ = b.socket.out.send(b.settledAnswer(b.query.Run, b.settled)) // an error ends the socket
}

func (b *Subscription) settledAnswer(run string, status mailroom.Status) answer {
	return answer{Op: "settled", Sub: b.id, Run: run, Status: string(status)}
}

// SendEvent implements [Sink]. It sends one event, and on a thread's stream also that a run has ended.
func (b *Subscription) SendEvent(e stream.Event) error {
	name, data, err := EventData(e)
	if err != nil {
		return err
	}
	at := EventID(e)
	sent, err := b.send(name, at, "", data)
	if sent {
		b.cursor = at
	}
	if err != nil || e.Entry == nil {
		return err
	}
	status, ended := entry.EndStatus(e.Entry)
	switch {
	case !ended:
		if e.Entry.Kind == entry.KindRetried {
			b.settled = ""
		}
	case b.query.Run != "":
		b.settled = status // the last status counts, because a run can be retried
	default:
		return b.socket.out.send(b.settledAnswer(e.Entry.Run, status))
	}
	return nil
}

// SendAll implements [Sink]. An event that only moves the position has no frame.
func (b *Subscription) SendAll(e stream.AllEvent) error {
	name, data, err := AllEventData(e)
	if err != nil {
		return err
	}
	if e.Delta != nil {
		_, err = b.send(name, "", e.Thread, data)
		return err
	}
	at, sent := e.Cursor.String(), true
	if name != "" {
		sent, err = b.send(name, at, "", data)
	}
	if sent {
		b.cursor = at
	}
	if err != nil || e.Entry == nil {
		return err
	}
	if status, ended := entry.EndStatus(e.Entry); ended {
		return b.socket.out.send(b.settledAnswer(e.Entry.Run, status))
	}
	return nil
}

// send writes one event frame. cursor and thread may be "".
func (b *Subscription) send(name, cursor, thread string, data []byte) (sent bool, err error) {
	sent, err = b.socket.out.write(len(data), func(w *bytes.Buffer) error {
		w.WriteString(`{"op":"` + name + `","sub":"` + b.id + `"`)
		if cursor != "" {
			w.WriteString(`,"cursor":"` + cursor + `"`)
		}
		if thread != "" {
			w.WriteString(`,"thread":`)
			w.Write(quoteJSON(thread))
		}
		w.WriteString(`,"` + name + `":`)
		w.Write(data)
		w.WriteByte('}')
		return nil
	})
	if errors.Is(err, request.ErrTooSlow) && sent {
		b.blocked = true
	}
	return sent, err
}
