package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"mailroom/bus"
	"mailroom/internal/recovery"
)

// Hints go through LISTEN and NOTIFY, on connections of their own and not in the transactions whose rows
// they are about: a NOTIFY in a transaction with data takes a lock of the whole database server at its
// commit, which would make the commits of all servers wait for each other.
//
// Every role of the database can read and send on a channel. So hints have no text of messages, and the
// worst that a false one can do is a read. Live text for a reader at another server is flushed to the
// store instead.
//
// Nothing is confirmed or repeated. A hint replaces no look at the store, so a wire that is behind, or was
// cut, drops its hints and sends one that says so.
const (
	// wireSuffix marks the connections of a wire in application_name.
	wireSuffix = "_wire"
	// wireGather is the least time between two statements, in which hints are gathered. The first hint
	// after a longer pause is sent at once.
	wireGather = 2 * time.Millisecond
	// wirePayload is the maximum size of a payload; the server accepts less than 8,000 bytes.
	wirePayload = 7900
	// wirePending bounds the hints that wait to be sent.
	wirePending = 16_384
	// wireTimeout bounds one statement.
	wireTimeout = 5 * time.Second

	minWirePause, maxWirePause = 50 * time.Millisecond, 2 * time.Second
)

// Wire is a [bus.Wire] over LISTEN and NOTIFY. One of its connections listens, the other one sends.
type Wire struct {
	options Options
	log     *slog.Logger
	sender  string // recognizes its own hints
	channel string // contains a digest of the schema; names of channels are local to a database

	mu      sync.Mutex
	pending []bus.Hint            // hints to send, in order
	known   map[bus.Hint]struct{} // pending

	wake chan struct{} // one slot: hints are pending
}

// NewWire makes a wire for the stores that are opened with the same URL and schema. Run connects.
func NewWire(o Options, log *slog.Logger) (*Wire, error) {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	digest := sha256.Sum256([]byte(o.Schema))
	return &Wire{
		options: o, log: log, sender: uuid.NewString(), channel: "mailroom_" + hex.EncodeToString(digest[:8]),
		known: map[bus.Hint]struct{}{}, wake: make(chan struct{}, 1),
	}, nil
}

// Send implements [bus.Wire].
func (w *Wire) Send(hints ...bus.Hint) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range hints {
		if _, ok := w.known[h]; ok {
			continue
		}
		if len(w.pending) >= wirePending {
			clear(w.known)
			w.pending, h = w.pending[:0], bus.Hint{Kind: bus.HintLook}
		}
		w.known[h] = struct{}{}
		w.pending = append(w.pending, h)
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// take returns the pending hints as payloads.
func (w *Wire) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	payloads := bus.FormatHints(w.sender, w.pending, wirePayload)
	clear(w.known)
	clear(w.pending)
	w.pending = w.pending[:0]
	return payloads
}

// Run implements [bus.Wire].
func (w *Wire) Run(ctx context.Context, receive func(bus.Hint)) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		defer recovery.Error(w.log, "wire listener", &err)
		w.keep(ctx, "listener", func(conn *pgx.Conn, works func()) error { return w.listen(ctx, conn, receive, works) })
		return nil
	})
	group.Go(func() (err error) {
		defer recovery.Error(w.log, "wire sender", &err)
		w.keep(ctx, "sender", func(conn *pgx.Conn, works func()) error { return w.forward(ctx, conn, works) })
		return nil
	})
	return group.Wait()
}

// wirePause is the pause before the next connection.
type wirePause struct{ last time.Duration } // 0: there was none

// after returns the pause behind a connection, and whether this is the first failure. Only a connection whose
// statement was accepted, and that lived for longer than the longest pause, makes the next pause short: a
// pooler or a standby accepts connections and refuses the statement, or ends them at once.
func (p *wirePause) after(worked bool, lived time.Duration) (pause time.Duration, first bool) {
	if worked && lived > maxWirePause {
		p.last = 0
	}
	first = p.last == 0
	p.last = min(max(2*p.last, minWirePause), maxWirePause)
	return p.last, first
}

// keep calls f with a connection, and with a new one whenever f fails, until ctx ends. f calls works when the
// server has accepted its statement.
func (w *Wire) keep(ctx context.Context, end string, f func(conn *pgx.Conn, works func()) error) {
	var pauses wirePause
	for ctx.Err() == nil {
		begun, worked := time.Now(), false
		conn, err := w.options.connect(ctx, wireSuffix, nil)
		if err == nil {
			err = f(conn, func() { worked = true })
			closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			_ = conn.Close(closing) // the connection may be lost already
			cancel()
		}
		if ctx.Err() != nil {
			return
		}
		pause, first := pauses.after(worked, time.Since(begun))
		level := slog.LevelWarn
		if !first {
			level = slog.LevelDebug
		}
		w.log.Log(ctx, level, "no hints between servers; reconnecting", "connection", end, "error", err)
		select {
		case <-time.After(pause/2 + rand.N(pause)):
		case <-ctx.Done():
		}
	}
}

// listen delivers the hints of other servers until the connection fails or ctx ends.
func (w *Wire) listen(ctx context.Context, conn *pgx.Conn, receive func(bus.Hint), works func()) error {
	if err := w.execute(ctx, conn, "LISTEN "+pgx.Identifier{w.channel}.Sanitize()); err != nil {
		return err
	}
	works()
	receive(bus.Hint{Kind: bus.HintLook})
	w.Send(bus.Hint{Kind: bus.HintLook})
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		sender, hints := bus.ParseHints(n.Payload)
		if sender == w.sender {
			continue
		}
		for _, h := range hints {
			receive(h)
		}
	}
}

// forward sends hints until the connection fails or ctx ends. The first ones after a lost connection
// include HintLook for those that it lost.
func (w *Wire) forward(ctx context.Context, conn *pgx.Conn, works func()) error {
	if err := w.execute(ctx, conn, "SET synchronous_commit = off"); err != nil {
		return err
	}
	// No hint: it shows that the server takes some.
	if err := w.execute(ctx, conn, "SELECT pg_notify($1, '')", w.channel); err != nil {
		return err
	}
	works()
	var sent time.Time
	for {
		select {
		case <-w.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case <-time.After(time.Until(sent.Add(wireGather))):
		case <-ctx.Done():
			return ctx.Err()
		}
		sent = time.Now()
		payloads := w.take()
		if len(payloads) == 0 {
			continue
		}
		if err := w.execute(ctx, conn, "SELECT pg_notify($1, p) FROM unnest($2::text[]) p", w.channel, payloads); err != nil {
			w.Send(bus.Hint{Kind: bus.HintLook})
			return err
		}
	}
}

func (w *Wire) execute(ctx context.Context, conn *pgx.Conn, text string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, wireTimeout)
	defer cancel()
	_, err := conn.Exec(ctx, text, args...)
	return err
}
