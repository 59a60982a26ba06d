package slack

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mailroom/channel"
)

// drainTimeout is how long a socket is read after another one has taken over. Slack closes
// it sooner: it says so about ten seconds before.
const drainTimeout = 30 * time.Second

// renewal is the change from one socket to the next. Slack asks for it every few hours
// and gives warning
// (https://docs.slack.dev/apis/events-api/using-socket-mode#disconnect): the next socket
// is opened while the old one is still read, so there is no moment without one. Whatever
// comes over either is acknowledged on that one; what comes over both has one key. A
// socket that fails without a warning is not renewed here: that is the end of the
// connection.
type renewal struct {
	results chan dialResult
	dialing bool
	lostErr error // of the socket, which failed while the next one was opened
	old     []*socket
	drained <-chan time.Time // nil: there are no old ones
}

// results is the socket that takes over, or why there is none.
type dialResult struct {
	socket *socket
	err    error
}

func (r *renewal) init() { r.results = make(chan dialResult) }

// currentSocket is the socket that counts.
func (c *connection) currentSocket() *socket {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.socket
}

// replaceSocket has another socket be the one that counts, and returns the old one.
func (c *connection) replaceSocket(s *socket) (old *socket) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old, c.socket = c.socket, s
	return old
}

// onDisconnect does what a disconnect asks for.
func (in *receiver) onDisconnect(ctx context.Context, a socketEvent) error {
	switch {
	case a.Reason == "link_disabled":
		return channel.Fatal(errors.New("socket mode is turned off: turn it on for the app at https://api.slack.com/apps"))
	case a.socket != in.currentSocket():
		return nil
	case a.Reason != "warning" && a.Reason != "refresh_requested":
		return unavailable(&transportError{op: "receive", reason: fmt.Sprintf("Slack ended the connection (%.100q)", a.Reason)})
	case in.renewal.dialing:
		return nil
	}
	in.host.Log().Info("Slack asks for another socket", "reason", a.Reason)
	in.renewal.dialing = true
	in.spawn(func() {
		s, err := in.client.dial(ctx, in.host.Received)
		select {
		case in.renewal.results <- dialResult{s, err}:
		case <-ctx.Done():
			if err == nil {
				_ = s.close() // it tells of a socket that was closed before
			}
		}
	})
	return nil
}

// onSocketLost takes the end of a socket. It is the end of the connection, unless another one
// has taken over, or is about to.
func (in *receiver) onSocketLost(a socketEvent) error {
	switch {
	case a.socket != in.currentSocket():
		return nil
	case in.renewal.dialing:
		in.renewal.lostErr = a.err
		return nil
	}
	return a.err
}

// onDialed takes the socket that takes over. One that could not be opened ends nothing as
// long as the old one is there.
func (in *receiver) onDialed(ctx context.Context, d dialResult) error {
	in.renewal.dialing = false
	if d.err != nil {
		in.host.ReportError(fmt.Errorf("open the next socket: %w", d.err))
		if in.renewal.lostErr != nil || isAPIError(d.err, subjectToken, subjectScope) {
			return connectionError(d.err)
		}
		return nil
	}
	in.renewal.lostErr = nil
	in.renewal.old = append(in.renewal.old, in.replaceSocket(d.socket))
	in.renewal.drained = time.After(drainTimeout)
	in.startReader(ctx, d.socket)
	return nil
}

// closeOld closes the sockets that were replaced.
func (r *renewal) closeOld() {
	for _, s := range r.old {
		_ = s.close() // it tells of a socket that was closed before
	}
	r.old, r.drained = nil, nil
}
