// Package poll connects agents to a platform that is polled for messages. A workspace of the
// platform is a channel, its rows become submits, and replies go to the canvas or to the agent that
// sent the task.
//
// A row runs once: its activity id is the key of the submit. It is acknowledged when its run has
// ended and the platform has received or permanently refused the reply. Whether that is so is
// computed from the runs, not stored separately.
package poll

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/store"
)

// Kind is the name of this platform in configurations.
const Kind = "poll"

// Options configure a workspace. URL, Workspace, Agent and Token are required.
type Options struct {
	URL               string // base URL of the platform
	Workspace         string
	Agent             string // reads the messages
	Token             string
	Interval          time.Duration // between two polls; defaults to DefaultInterval
	HeartbeatInterval time.Duration // defaults to 25 s
	Timeout           time.Duration // timeout of one call; defaults to 20 s
	// ReadAhead bounds the unhandled messages. The bridge reads no more until some are handled. It
	// defaults to 1,000.
	ReadAhead int
	// RetryRefusedFor is how long to retry a reply that the platform refuses (404, 400, 409, …), or
	// a token that it accepted before (401). It defaults to 5 min.
	RetryRefusedFor time.Duration
	// Started is the start time of the bridge for heartbeats; it defaults to now.
	Started time.Time
	// Command is how a person calls this program on the bridge's machine, for the instructions in
	// questions. It defaults to "mailroom".
	Command string
}

// DefaultInterval is the default interval between two polls.
const DefaultInterval = 2 * time.Second

const (
	initialWindow          = 600 * time.Second // age of the oldest rows read without a cursor
	pageRows               = 100               // page size
	maxRows                = 500               // the platform's maximum page size
	defaultReadAhead       = 1000
	defaultRetryRefusedFor = 5 * time.Minute
	// minAckDelay and maxAckDelay bound the backoff of acknowledgements.
	minAckDelay = time.Second
	maxAckDelay = time.Minute
)

// Bridge connects one workspace. It polls, so there is no connection to open.
type Bridge struct {
	options Options
	client  *client
}

// New returns the bridge of a workspace. It makes no request.
func New(o Options) (*Bridge, error) {
	o.setDefaults()
	switch {
	case o.Workspace == "":
		return nil, errors.New("missing workspace")
	case o.Agent == "":
		return nil, errors.New("missing agent")
	case o.Token == "":
		return nil, errors.New("missing token")
	case strings.ContainsFunc(o.Token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, errors.New("invalid token: it contains a space, a line break or another forbidden character")
	}
	c, err := newClient(o)
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	return &Bridge{options: o, client: c}, nil
}

func (o *Options) setDefaults() {
	if o.Interval == 0 {
		o.Interval = DefaultInterval
	}
	if o.HeartbeatInterval == 0 {
		o.HeartbeatInterval = 25 * time.Second
	}
	if o.Timeout == 0 {
		o.Timeout = callTimeout
	}
	if o.ReadAhead == 0 {
		o.ReadAhead = defaultReadAhead
	}
	if o.RetryRefusedFor == 0 {
		o.RetryRefusedFor = defaultRetryRefusedFor
	}
	if o.Started.IsZero() {
		o.Started = time.Now()
	}
	if o.Command == "" {
		o.Command = "mailroom"
	}
}

// ReconnectPolicy returns the policy for a workspace. The delay grows from 1 s to 1 min and stays
// there however long the outage lasts, because a failed poll costs the platform no more than a
// successful one. The idle timeout covers one missed poll and one slow poll.
func (o Options) ReconnectPolicy() channel.ReconnectPolicy {
	o.setDefaults()
	return channel.ReconnectPolicy{
		InitialDelay: minReconnectDelay, MaxDelay: maxReconnectDelay, ProbeInterval: maxReconnectDelay, Polled: true,
		FatalGrace:  o.RetryRefusedFor,
		IdleTimeout: 2*o.Interval + o.Timeout + 5*time.Second,
	}
}

// minReconnectDelay and maxReconnectDelay bound the delay between two connection attempts.
const (
	minReconnectDelay = time.Second
	maxReconnectDelay = time.Minute
)

// Connect implements [channel.Connect].
func (b *Bridge) Connect(_ context.Context, l *channel.Host) (channel.Adapter, error) {
	return &connection{b, l}, nil
}

// connection is a Bridge with the host of one adapter.
type connection struct {
	*Bridge
	host *channel.Host
}

var _ channel.Adapter = (*connection)(nil)

// Close implements [channel.Adapter].
func (c *connection) Close() error {
	c.client.http.CloseIdleConnections()
	return nil
}

// receiver is the state of one call of Receive.
type receiver struct {
	*connection
	position   position
	savedSince string // position.Since in the store
	limit      int    // page size of the next poll

	acked    int64 // highest seq acknowledged to the platform
	ackDelay time.Duration
	nextAck  time.Time
}

// Receive implements [channel.Adapter].
func (c *connection) Receive(ctx context.Context) error {
	raw, err := c.host.Position(ctx, c.options.Workspace)
	if err != nil {
		return err
	}
	at, err := parsePosition(raw)
	if err != nil {
		return channel.Fatal(err)
	}
	r := &receiver{connection: c, position: at, savedSince: at.Since, limit: pageRows}
	for {
		if err := r.acknowledge(ctx); err != nil {
			return err
		}
		more, err := r.poll(ctx)
		if err != nil {
			return pollError(err)
		}
		pause := c.options.Interval
		if more {
			pause = 0
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
	}
}

// pollError classifies an error of a poll. A rejected token is fatal.
func pollError(err error) error {
	if e, ok := errors.AsType[*apiError](err); ok && e.status == http.StatusUnauthorized {
		return channel.Fatal(fmt.Errorf("the workspace's token was rejected: %w", err))
	}
	return err
}

// poll fetches and submits one page of messages. It reports whether another page may be available.
func (r *receiver) poll(ctx context.Context) (more bool, err error) {
	room := r.options.ReadAhead - len(r.position.Rows)
	if room <= 0 {
		return false, r.pollWhileFull(ctx)
	}
	limit := min(r.limit, room)
	rows, err := r.client.fetchRows(ctx, r.position.Since, limit)
	e, refused := errors.AsType[*apiError](err)
	switch {
	case refused && e.status == http.StatusGone && r.position.Since != "":
		r.host.Log().Warn("cursor expired; reading the last ten minutes again, older messages may be lost", "since_id",
			r.position.Since)
		r.position.Since = ""
		return true, nil
	case errors.Is(err, errTooLarge) && limit > 1:
		r.limit = max(1, limit/4)
		return true, nil
	case err != nil:
		return false, err
	}
	r.host.Received()
	before := r.position.Since
	for _, raw := range rows {
		if err := r.handleRow(ctx, raw); err != nil {
			return false, err
		}
	}
	if r.position.Since != r.savedSince {
		if err := r.saveCursor(ctx); err != nil {
			return false, err
		}
	}
	r.reportProgress()
	full := len(rows) >= limit
	switch moved := r.position.Since != before; {
	case full && !moved && r.limit < maxRows: // a full page without a row id that could serve as the cursor
		r.limit = maxRows
	case full && !moved:
		r.host.ReportError(fmt.Errorf("cannot read past %d rows without activity_id", len(rows)))
		full = false
	case moved:
		r.limit = min(pageRows, 2*r.limit)
	}
	return full, nil
}

// pollWhileFull checks that the platform responds while the read-ahead limit is reached.
func (r *receiver) pollWhileFull(ctx context.Context) error {
	_, err := r.client.fetchRows(ctx, r.position.Since, 1)
	if e, ok := errors.AsType[*apiError](err); err != nil && !(ok && e.status == http.StatusGone) {
		return err
	}
	r.host.Received()
	r.reportProgress()
	return nil
}

// handleRow submits or skips one row.
func (r *receiver) handleRow(ctx context.Context, raw json.RawMessage) error {
	log := r.host.Log()
	in, action, reason := parseRow(raw, r.options.Workspace)
	if action == rowInvalid || action == rowOwn {
		log.Debug("row skipped", "activity", in.id, "reason", reason)
		if action == rowInvalid {
			log.Warn("invalid row of the inbox skipped", "activity", in.id, "reason", reason)
		}
		if in.id != "" {
			r.position.Since = in.id
		}
		return nil
	}
	if reason != "" {
		log.Warn("message has no sender to reply to; running it without a reply", "activity", in.id, "kind", in.kind,
			"reason", reason)
	}
	next := r.position.add(pending{Seq: in.seq, Thread: channel.ThreadID(r.host.Name(), in.chat()...), Key: in.key()})
	next.Since = in.id
	encoded, err := next.encode()
	if err != nil {
		return err
	}
	_, err = r.host.Submit(ctx, channel.Inbound{
		Chat: in.chat(), Key: in.key(), Parts: in.parts, Sender: in.sender(),
		Agent: r.options.Agent, Metadata: in.metadata(), NoRetry: true,
		Cursor: channel.Cursor{Identity: r.options.Workspace, Position: encoded},
	})
	switch mailroom.CodeOf(err) {
	case "":
		r.position, r.savedSince = next, next.Since
		return nil
	case mailroom.CodeConflict:
		// The row was submitted before with other content or another agent. The earlier submit
		// stands.
		log.Warn("message changed after it was submitted; keeping the first version", "activity", in.id, "error", err)
		r.position = next
		return r.saveCursor(ctx)
	case mailroom.CodeInvalid, mailroom.CodeTooLarge, mailroom.CodeNotFound:
		log.Error("message rejected and skipped", "activity", in.id, "error", err)
		r.position.Since = in.id
		return r.saveCursor(ctx)
	}
	return err
}

// saveCursor stores the position without a submit.
func (r *receiver) saveCursor(ctx context.Context) error {
	encoded, err := r.position.encode()
	if err != nil {
		return err
	}
	if err := r.host.MoveCursor(ctx, channel.Cursor{Identity: r.options.Workspace, Position: encoded}); err != nil {
		return err
	}
	r.savedSince = r.position.Since
	return nil
}

func (r *receiver) reportProgress() {
	held := ""
	if len(r.position.Rows) >= r.options.ReadAhead {
		held = fmt.Sprintf("read-ahead limit reached: %d messages not handled yet", len(r.position.Rows))
	}
	r.host.ReportProgress(channel.Progress{Cursor: r.position.Since, Unacked: len(r.position.Rows), Blocked: held})
}

// acknowledge sends a new acknowledgement to the platform. A failure does not block the receiver;
// it is retried later.
func (r *receiver) acknowledge(ctx context.Context) error {
	if len(r.position.Rows) > 0 {
		done, err := r.handledRows(ctx)
		if err != nil {
			return err
		}
		r.position = r.position.removeHandled(func(p pending) bool { return done[p] })
		r.reportProgress()
	}
	now := time.Now()
	if r.position.Done <= r.acked || now.Before(r.nextAck) {
		return nil
	}
	err := r.client.ack(ctx, r.position.Done)
	if err != nil && ctx.Err() == nil {
		r.ackDelay = min(max(minAckDelay, 2*r.ackDelay), maxAckDelay)
		r.nextAck = now.Add(max(r.ackDelay, mailroom.AsFailure(err).RetryAfter))
		r.host.ReportError(err)
		return nil
	}
	r.acked, r.ackDelay = max(r.acked, r.position.Done), 0
	return nil
}

// Maintain implements [channel.Adapter]. It sends heartbeats. They do not prove that the channel is
// alive, and a failed one does not end it.
func (c *connection) Maintain(ctx context.Context) error {
	turn := time.NewTicker(c.options.HeartbeatInterval)
	defer turn.Stop()
	for {
		if err := c.sendHeartbeat(ctx); err != nil && ctx.Err() == nil {
			c.host.ReportError(err)
		}
		select {
		case <-turn.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (c *connection) sendHeartbeat(ctx context.Context) error {
	out := heartbeat{Workspace: c.options.Workspace, Uptime: int64(time.Since(c.options.Started) / time.Second)}
	err := c.host.View(ctx, func(r store.Reader) (err error) {
		counts, err := r.Count(store.CountQuery{Agent: c.options.Agent, Statuses: []mailroom.Status{mailroom.StatusRunning}})
		out.ActiveTasks = counts.Sum()
		return err
	})
	if err != nil {
		return err
	}
	if out.ActiveTasks > 0 {
		out.CurrentTask = fmt.Sprintf("%s works on %d messages", c.options.Agent, out.ActiveTasks)
	}
	return c.client.heartbeat(ctx, out)
}
