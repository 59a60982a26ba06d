package slack

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mailroom/channel"
	"mailroom/channel/httpcall"
)

// drainTimeout is how long an old socket is read after its replacement. Slack usually closes the
// socket sooner: about ten seconds after its request for a renewal.
const drainTimeout = 30 * time.Second

// renewal replaces the socket. Slack requests a renewal every few hours, with a warning
// (https://docs.slack.dev/apis/events-api/using-socket-mode#disconnect): the next socket is
// opened while the old one is still read, so the bot is never without a socket. An envelope is
// acknowledged on the socket it came over; an envelope that comes over both has one key. A
// socket that fails without a warning is not renewed: its failure ends the connection.
type renewal struct {
	results chan dialResult
	dialing bool
	lostErr error // error of the old socket, if it failed during the dial
	old     []*socket
	drained <-chan time.Time // end of the wait for old sockets; nil if there is no old socket
	recount <-chan time.Time // when to count the connections of the app again; nil: no doubt
}

// dialResult is the next socket, or the error of opening it.
type dialResult struct {
	socket *socket
	err    error
}

func (r *renewal) init() { r.results = make(chan dialResult) }

// suspect notes whether Slack counts connections of the app besides the first socket. They may belong to another
// process, which takes events away, or be sockets of this process that ended a moment ago: Slack does not say which.
// So a report has to wait until Slack has noticed the end of this process's own sockets. Only the hello of a new
// socket has the number, so the receiver then opens another socket, as for a renewal.
func (r *renewal) suspect(first *socket, after time.Duration) {
	if first.otherConnections > 0 {
		r.recount = time.After(after)
	}
}

// reportOthers reports connections of the app that belong to other processes. The argument next is the newest socket;
// the socket in use is still open too.
func (in *receiver) reportOthers(next *socket) {
	if others := next.otherConnections - 1 - len(in.renewal.old); others > 0 {
		in.host.ReportError(
			fmt.Errorf("the app has %d connections and Slack sends each event to only one of them: stop the other process",
				others+1))
	}
}

// currentSocket returns the socket in use.
func (c *connection) currentSocket() *socket {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.socket
}

// replaceSocket puts another socket in use and returns the old one.
func (c *connection) replaceSocket(s *socket) (old *socket) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old, c.socket = c.socket, s
	return old
}

// onDisconnect handles a disconnect message.
func (in *receiver) onDisconnect(ctx context.Context, a socketEvent) error {
	switch {
	case a.Reason == "link_disabled":
		return channel.Fatal(errors.New("the app has Socket Mode disabled: enable it at https://api.slack.com/apps"))
	case a.socket != in.currentSocket():
		return nil
	case a.Reason != "warning" && a.Reason != "refresh_requested":
		return httpcall.Unavailable(&httpcall.TransportError{Op: "receive",
			Reason: fmt.Sprintf("Slack closed the connection (%.100q)", a.Reason)})
	case in.renewal.dialing:
		return nil
	}
	in.host.Log().Info("slack requested a socket renewal", "reason", a.Reason)
	in.openNext(ctx)
	return nil
}

// openNext starts a goroutine that opens the next socket, unless one already does. onDialed gets the result.
func (in *receiver) openNext(ctx context.Context) {
	if in.renewal.dialing {
		return
	}
	in.renewal.dialing = true
	in.spawn(func() {
		s, err := in.client.dial(ctx, in.host.Received)
		select {
		case in.renewal.results <- dialResult{s, err}:
		case <-ctx.Done():
			if err == nil {
				_ = s.close() // always nil
			}
		}
	})
}

// onSocketLost handles the end of a socket. It ends the connection, unless the socket has been
// replaced or a replacement is being opened.
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

// onDialed puts the next socket in use. A failed dial ends the connection only if the old
// socket is gone too, or a token or scope was rejected.
func (in *receiver) onDialed(ctx context.Context, d dialResult) error {
	in.renewal.dialing = false
	if d.err != nil {
		in.host.ReportError(fmt.Errorf("open the next socket: %w", d.err))
		if in.renewal.lostErr != nil || isAPIError(d.err, subjectToken, subjectScope) {
			return connectionError(d.err)
		}
		return nil
	}
	if in.renewal.lostErr == nil {
		in.reportOthers(d.socket)
	}
	in.renewal.lostErr = nil
	in.renewal.old = append(in.renewal.old, in.replaceSocket(d.socket))
	in.renewal.drained = time.After(drainTimeout)
	in.startReader(ctx, d.socket)
	return nil
}

// closeOld closes the replaced sockets.
func (r *renewal) closeOld() {
	for _, s := range r.old {
		_ = s.close() // always nil
	}
	r.old, r.drained = nil, nil
}
