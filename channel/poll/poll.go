// Package poll connects agents to a platform that hands out messages when it is
// asked for them: a workspace of the platform is a channel, its rows are submits,
// and replies go to the canvas or to the agent that asked.
//
// A row is run once, whatever is repeated: its key is the activity's id. It is
// acknowledged when its run has ended and the platform has taken the reply, or has
// refused it for good; which rows are is read from the runs whenever it is asked,
// and kept nowhere beside them.
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
)

// Kind is what a channel of this package is called in settings.
const Kind = "poll"

// Options of a workspace. URL, Workspace, Agent and Token are needed.
type Options struct {
	URL               string // of the platform
	Workspace         string
	Agent             string // that reads the messages
	Token             string
	Interval          time.Duration // between two looks for messages; 0 is DefaultInterval
	HeartbeatInterval time.Duration // between two heartbeats; 0 is 25 s
	Timeout           time.Duration // of one call; 0 is 20 s
	// ReadAhead is how many messages may be under way before no more are read; 0
	// is 1,000.
	ReadAhead int
	// RetryRefusedFor is for how long a reply that the platform refuses (404, 400, 409, …), or a
	// token that it has taken before (401), is tried again before the refusal counts; 0
	// is 5 min.
	RetryRefusedFor time.Duration
	// Started is when the bridge was, which heartbeats tell; zero is now.
	Started time.Time
	// Command is how a person on the bridge's machine calls this program, to be
	// told when something is to be decided; "" is "mailroom".
	Command string
}

// DefaultInterval is how often the platform is asked for messages.
const DefaultInterval = 2 * time.Second

const (
	initialWindow          = 600 * time.Second // how far back it is looked without a cursor
	pageRows               = 100               // asked for at a time
	maxRows                = 500               // the platform gives no more
	defaultReadAhead       = 1000
	defaultRetryRefusedFor = 5 * time.Minute
	// minAckDelay and lastAckPause are between two tries to acknowledge.
	minAckDelay = time.Second
	maxAckDelay = time.Minute
)

// Bridge is one workspace. It is connected as long as it gets answers, so there is
// nothing to open.
type Bridge struct {
	options Options
	client  *client
}

// New makes the bridge of a workspace. It asks nothing of the platform yet.
func New(o Options) (*Bridge, error) {
	o.setDefaults()
	switch {
	case o.Workspace == "":
		return nil, errors.New("no workspace is named")
	case o.Agent == "":
		return nil, errors.New("no agent is named")
	case o.Token == "":
		return nil, errors.New("there is no token")
	case strings.ContainsFunc(o.Token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, errors.New("the token has characters that no token has, such as a space or the end of a line")
	}
	c, err := newClient(o)
	if err != nil {
		return nil, fmt.Errorf("the platform's url: %w", err)
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

// ReconnectPolicy is how a workspace is tried: after 1 s, and every minute at last, however long
// it has failed, because a look costs the platform no more than one that succeeds. An
// answer proves that the platform can be heard for as long as a look that was missed
// takes, and one that takes as long as it may.
func (o Options) ReconnectPolicy() channel.ReconnectPolicy {
	o.setDefaults()
	return channel.ReconnectPolicy{
		InitialDelay: MinReconnectDelay, MaxDelay: MaxReconnectDelay, ProbeInterval: MaxReconnectDelay, Polled: true, FatalGrace: o.RetryRefusedFor,
		IdleTimeout: 2*o.Interval + o.Timeout + 5*time.Second,
	}
}

// FirstPause and LastPause are between two tries to hear the platform.
const (
	MinReconnectDelay = time.Second
	MaxReconnectDelay = time.Minute
)

// Connect is [channel.Connect].
func (b *Bridge) Connect(_ context.Context, l *channel.Host) (channel.Adapter, error) {
	return &connection{b, l}, nil
}

// connection is a Bridge with the link of one adapter.
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

// receiver is one time of receiving: from a saved position to a lost connection.
type receiver struct {
	*connection
	position   position
	savedSince string // position.Since as it was saved
	limit      int    // rows to ask for

	acked    int64 // highest seq that the platform has taken an acknowledgement of
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

// pollError gives an error of a look the meaning that it has for the channel: with a
// token that is refused there is nothing to be heard.
func pollError(err error) error {
	if e, ok := errors.AsType[*apiError](err); ok && e.status == http.StatusUnauthorized {
		return channel.Fatal(fmt.Errorf("the token of the workspace is refused: %w", err))
	}
	return err
}

// poll asks for messages once and takes them in. It reports whether there may be
// more of them already.
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
		r.host.Log().Warn("the platform does not know the cursor any more; messages of the last ten minutes are read again, those before may be lost", "since_id", r.position.Since)
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
	case full && !moved && r.limit < maxRows: // none of them has an id to go on from
		r.limit = maxRows
	case full && !moved:
		r.host.ReportError(fmt.Errorf("the platform lists %d rows of which none has an activity_id, and what is behind them cannot be read", len(rows)))
		full = false
	case moved:
		r.limit = min(pageRows, 2*r.limit)
	}
	return full, nil
}

// pollWhileFull asks whether the platform is there while so much is under way that nothing
// more is read.
func (r *receiver) pollWhileFull(ctx context.Context) error {
	_, err := r.client.fetchRows(ctx, r.position.Since, 1)
	if e, ok := errors.AsType[*apiError](err); err != nil && !(ok && e.status == http.StatusGone) {
		return err
	}
	r.host.Received()
	r.reportProgress()
	return nil
}

// handleRow does with one row what is to be done with it.
func (r *receiver) handleRow(ctx context.Context, raw json.RawMessage) error {
	log := r.host.Log()
	in, what, why := parseRow(raw, r.options.Workspace)
	if what == rowInvalid || what == rowOwn {
		log.Debug("row passed over", "activity", in.id, "reason", why)
		if what == rowInvalid {
			log.Warn("a row of the platform is no message and is passed over", "activity", in.id, "reason", why)
		}
		if in.id != "" {
			r.position.Since = in.id
		}
		return nil
	}
	if why != "" {
		log.Warn("a message has nobody to be answered; it is run, and its reply is sent to nobody", "activity", in.id, "kind", in.kind, "reason", why)
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
		// It was taken before, when its content or the agent was another: what
		// was done then stands.
		log.Warn("a message was taken before with other content, which stands", "activity", in.id, "error", err)
		r.position = next
		return r.saveCursor(ctx)
	case mailroom.CodeInvalid, mailroom.CodeTooLarge, mailroom.CodeNotFound:
		log.Error("a message cannot be taken and is passed over", "activity", in.id, "error", err)
		r.position.Since = in.id
		return r.saveCursor(ctx)
	}
	return err
}

// saveCursor writes the position without a submit.
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
		held = fmt.Sprintf("%d messages are not handled yet, and no more are read until some are", len(r.position.Rows))
	}
	r.host.ReportProgress(channel.Progress{Cursor: r.position.Since, Unacked: len(r.position.Rows), Blocked: held})
}

// acknowledge tells the platform what is handled, if that is news. That it cannot
// be told holds nothing up: it is told again.
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

// Maintain implements [channel.Adapter]: it sends heartbeats. They prove nothing, and one
// that fails ends nothing.
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
	err := c.host.View(ctx, func(r mailroom.Reader) (err error) {
		counts, err := r.Count(mailroom.CountQuery{Agent: c.options.Agent, Statuses: []mailroom.Status{mailroom.StatusRunning}})
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
