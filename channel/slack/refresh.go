package slack

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mailroom/channel"
)

// drainTime is how long a socket is read after another one has taken over. Slack closes
// it sooner: it says so about ten seconds before.
const drainTime = 30 * time.Second

// renewal is the change from one socket to the next. Slack asks for it every few hours
// and gives warning
// (https://docs.slack.dev/apis/events-api/using-socket-mode#disconnect): the next socket
// is opened while the old one is still read, so there is no moment without one. Whatever
// comes over either is acknowledged on that one; what comes over both has one key. A
// socket that fails without a warning is not renewed here: that is the end of the
// connection.
type renewal struct {
	dialed  chan dialed
	dialing bool
	lost    error // of the socket, which failed while the next one was opened
	old     []*socket
	drained <-chan time.Time // nil: there are no old ones
}

// dialed is the socket that takes over, or why there is none.
type dialed struct {
	socket *socket
	err    error
}

func (r *renewal) begin() { r.dialed = make(chan dialed) }

// current is the socket that counts.
func (c *connection) current() *socket {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.socket
}

// succeed has another socket be the one that counts, and returns the old one.
func (c *connection) succeed(s *socket) (old *socket) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old, c.socket = c.socket, s
	return old
}

// disconnect does what a disconnect asks for.
func (in *receiving) disconnect(ctx context.Context, a arrival) error {
	switch {
	case a.Reason == "link_disabled":
		return channel.Fatal(errors.New("socket mode is turned off: turn it on for the app at https://api.slack.com/apps"))
	case a.on != in.current():
		return nil
	case a.Reason != "warning" && a.Reason != "refresh_requested":
		return outage(&lost{what: "receive", why: fmt.Sprintf("Slack ended the connection (%.100q)", a.Reason)})
	case in.renew.dialing:
		return nil
	}
	in.link.Log().Info("Slack asks for another socket", "reason", a.Reason)
	in.renew.dialing = true
	in.goes(func() {
		s, err := in.client.dial(ctx, in.link.Received)
		select {
		case in.renew.dialed <- dialed{s, err}:
		case <-ctx.Done():
			if err == nil {
				_ = s.close() // it tells of a socket that was closed before
			}
		}
	})
	return nil
}

// lost takes the end of a socket. It is the end of the connection, unless another one
// has taken over, or is about to.
func (in *receiving) lost(a arrival) error {
	switch {
	case a.on != in.current():
		return nil
	case in.renew.dialing:
		in.renew.lost = a.err
		return nil
	}
	return a.err
}

// renewed takes the socket that takes over. One that could not be opened ends nothing as
// long as the old one is there.
func (in *receiving) renewed(ctx context.Context, d dialed) error {
	in.renew.dialing = false
	if d.err != nil {
		in.link.ReportError(fmt.Errorf("open the next socket: %w", d.err))
		if in.renew.lost != nil || refusedAs(d.err, ofToken, ofScope) {
			return trouble(d.err)
		}
		return nil
	}
	in.renew.lost = nil
	in.renew.old = append(in.renew.old, in.succeed(d.socket))
	in.renew.drained = time.After(drainTime)
	in.reads(ctx, d.socket)
	return nil
}

// closeOld closes the sockets that were replaced.
func (r *renewal) closeOld() {
	for _, s := range r.old {
		_ = s.close() // it tells of a socket that was closed before
	}
	r.old, r.drained = nil, nil
}
