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
	firstLook = 600 * time.Second // how far back it is looked without a cursor
	pageRows  = 100               // asked for at a time
	mostRows  = 500               // the platform gives no more
	readAhead = 1000
	patience  = 5 * time.Minute
	// firstAckPause and lastAckPause are between two tries to acknowledge.
	firstAckPause = time.Second
	lastAckPause  = time.Minute
)

// Bridge is one workspace. It is connected as long as it gets answers, so there is
// nothing to open.
type Bridge struct {
	options Options
	client  *client
}

// New makes the bridge of a workspace. It asks nothing of the platform yet.
func New(o Options) (*Bridge, error) {
	o.fill()
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

func (o *Options) fill() {
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
		o.ReadAhead = readAhead
	}
	if o.RetryRefusedFor == 0 {
		o.RetryRefusedFor = patience
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
	o.fill()
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
	link *channel.Host
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
	at    position
	saved string // position.Since as it was saved
	limit int    // rows to ask for

	acked    int64 // highest seq that the platform has taken an acknowledgement of
	ackPause time.Duration
	ackNext  time.Time
}

// Receive implements [channel.Adapter].
func (c *connection) Receive(ctx context.Context) error {
	raw, err := c.link.Position(ctx, c.options.Workspace)
	if err != nil {
		return err
	}
	at, err := readPosition(raw)
	if err != nil {
		return channel.Fatal(err)
	}
	r := &receiver{connection: c, at: at, saved: at.Since, limit: pageRows}
	for {
		if err := r.acknowledge(ctx); err != nil {
			return err
		}
		more, err := r.look(ctx)
		if err != nil {
			return unheard(err)
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

// unheard gives an error of a look the meaning that it has for the channel: with a
// token that is refused there is nothing to be heard.
func unheard(err error) error {
	if e, ok := errors.AsType[*refusal](err); ok && e.status == http.StatusUnauthorized {
		return channel.Fatal(fmt.Errorf("the token of the workspace is refused: %w", err))
	}
	return err
}

// look asks for messages once and takes them in. It reports whether there may be
// more of them already.
func (r *receiver) look(ctx context.Context) (more bool, err error) {
	room := r.options.ReadAhead - len(r.at.Rows)
	if room <= 0 {
		return false, r.hold(ctx)
	}
	limit := min(r.limit, room)
	rows, err := r.client.page(ctx, r.at.Since, limit)
	e, refused := errors.AsType[*refusal](err)
	switch {
	case refused && e.status == http.StatusGone && r.at.Since != "":
		r.link.Log().Warn("the platform does not know the cursor any more; messages of the last ten minutes are read again, those before may be lost", "since_id", r.at.Since)
		r.at.Since = ""
		return true, nil
	case errors.Is(err, errTooLarge) && limit > 1:
		r.limit = max(1, limit/4)
		return true, nil
	case err != nil:
		return false, err
	}
	r.link.Received()
	before := r.at.Since
	for _, raw := range rows {
		if err := r.row(ctx, raw); err != nil {
			return false, err
		}
	}
	if r.at.Since != r.saved {
		if err := r.save(ctx); err != nil {
			return false, err
		}
	}
	r.show()
	full := len(rows) >= limit
	switch moved := r.at.Since != before; {
	case full && !moved && r.limit < mostRows: // none of them has an id to go on from
		r.limit = mostRows
	case full && !moved:
		r.link.ReportError(fmt.Errorf("the platform lists %d rows of which none has an activity_id, and what is behind them cannot be read", len(rows)))
		full = false
	case moved:
		r.limit = min(pageRows, 2*r.limit)
	}
	return full, nil
}

// hold asks whether the platform is there while so much is under way that nothing
// more is read.
func (r *receiver) hold(ctx context.Context) error {
	_, err := r.client.page(ctx, r.at.Since, 1)
	if e, ok := errors.AsType[*refusal](err); err != nil && !(ok && e.status == http.StatusGone) {
		return err
	}
	r.link.Received()
	r.show()
	return nil
}

// row does with one row what is to be done with it.
func (r *receiver) row(ctx context.Context, raw json.RawMessage) error {
	log := r.link.Log()
	in, what, why := readRow(raw, r.options.Workspace)
	if what == bad || what == ours {
		log.Debug("row passed over", "activity", in.id, "reason", why)
		if what == bad {
			log.Warn("a row of the platform is no message and is passed over", "activity", in.id, "reason", why)
		}
		if in.id != "" {
			r.at.Since = in.id
		}
		return nil
	}
	if why != "" {
		log.Warn("a message has nobody to be answered; it is run, and its reply is sent to nobody", "activity", in.id, "kind", in.kind, "reason", why)
	}
	next := r.at.with(pending{Seq: in.seq, Thread: channel.ThreadID(r.link.Name(), in.chat()...), Key: in.key()})
	next.Since = in.id
	encoded, err := next.encode()
	if err != nil {
		return err
	}
	_, err = r.link.Submit(ctx, channel.Inbound{
		Chat: in.chat(), Key: in.key(), Parts: in.parts, Sender: in.sender(),
		Agent: r.options.Agent, Metadata: in.labels(), NoRetry: true,
		Cursor: channel.Cursor{Identity: r.options.Workspace, Position: encoded},
	})
	switch mailroom.CodeOf(err) {
	case "":
		r.at, r.saved = next, next.Since
		return nil
	case mailroom.CodeConflict:
		// It was taken before, when its content or the agent was another: what
		// was done then stands.
		log.Warn("a message was taken before with other content, which stands", "activity", in.id, "error", err)
		r.at = next
		return r.save(ctx)
	case mailroom.CodeInvalid, mailroom.CodeTooLarge, mailroom.CodeNotFound:
		log.Error("a message cannot be taken and is passed over", "activity", in.id, "error", err)
		r.at.Since = in.id
		return r.save(ctx)
	}
	return err
}

// save writes the position without a submit.
func (r *receiver) save(ctx context.Context) error {
	encoded, err := r.at.encode()
	if err != nil {
		return err
	}
	if err := r.link.MoveCursor(ctx, channel.Cursor{Identity: r.options.Workspace, Position: encoded}); err != nil {
		return err
	}
	r.saved = r.at.Since
	return nil
}

func (r *receiver) show() {
	held := ""
	if len(r.at.Rows) >= r.options.ReadAhead {
		held = fmt.Sprintf("%d messages are not handled yet, and no more are read until some are", len(r.at.Rows))
	}
	r.link.ReportProgress(channel.Progress{Cursor: r.at.Since, Unacked: len(r.at.Rows), Blocked: held})
}

// acknowledge tells the platform what is handled, if that is news. That it cannot
// be told holds nothing up: it is told again.
func (r *receiver) acknowledge(ctx context.Context) error {
	if len(r.at.Rows) > 0 {
		done, err := r.handled(ctx)
		if err != nil {
			return err
		}
		r.at = r.at.settled(func(p pending) bool { return done[p] })
		r.show()
	}
	now := time.Now()
	if r.at.Done <= r.acked || now.Before(r.ackNext) {
		return nil
	}
	err := r.client.ack(ctx, r.at.Done)
	if err != nil && ctx.Err() == nil {
		r.ackPause = min(max(firstAckPause, 2*r.ackPause), lastAckPause)
		r.ackNext = now.Add(max(r.ackPause, mailroom.AsFailure(err).RetryAfter))
		r.link.ReportError(err)
		return nil
	}
	r.acked, r.ackPause = max(r.acked, r.at.Done), 0
	return nil
}

// Maintain implements [channel.Adapter]: it sends heartbeats. They prove nothing, and one
// that fails ends nothing.
func (c *connection) Maintain(ctx context.Context) error {
	turn := time.NewTicker(c.options.HeartbeatInterval)
	defer turn.Stop()
	for {
		if err := c.beat(ctx); err != nil && ctx.Err() == nil {
			c.link.ReportError(err)
		}
		select {
		case <-turn.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (c *connection) beat(ctx context.Context) error {
	out := beat{Workspace: c.options.Workspace, Uptime: int64(time.Since(c.options.Started) / time.Second)}
	err := c.link.View(ctx, func(r mailroom.Reader) (err error) {
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
