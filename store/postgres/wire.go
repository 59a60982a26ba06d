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

// Wire is a [bus.Wire] over LISTEN and NOTIFY. It has two connections of its own, because a NOTIFY in
// a transaction with data takes a lock of the whole server at its commit. Every role of the database
// can send and read its hints.
type Wire struct {
	options Options
	log     *slog.Logger
	sender  string // recognizes its own hints
	channel string // contains a digest of the schema; names of channels are local to a database

	mu      sync.Mutex
	pending []bus.Hint            // to be sent, in order
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
		w.keep(ctx, "listener", func(conn *pgx.Conn) error { return w.listen(ctx, conn, receive) })
		return nil
	})
	group.Go(func() (err error) {
		defer recovery.Error(w.log, "wire sender", &err)
		w.keep(ctx, "sender", func(conn *pgx.Conn) error { return w.forward(ctx, conn) })
		return nil
	})
	return group.Wait()
}

// keep calls f with a connection, and with a new one whenever f fails, until ctx ends.
func (w *Wire) keep(ctx context.Context, end string, f func(*pgx.Conn) error) {
	pause := minWirePause
	for ctx.Err() == nil {
		conn, err := w.options.connect(ctx, wireSuffix, nil)
		if err == nil {
			pause = minWirePause
			err = f(conn)
			closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			_ = conn.Close(closing) // the connection may be lost already
			cancel()
		}
		if ctx.Err() != nil {
			return
		}
		level := slog.LevelWarn
		if pause > minWirePause { // as the attempt before
			level = slog.LevelDebug
		}
		w.log.Log(ctx, level, "no hints between servers; reconnecting", "connection", end, "error", err)
		select {
		case <-time.After(pause/2 + rand.N(pause)):
			pause = min(2*pause, maxWirePause)
		case <-ctx.Done():
		}
	}
}

// listen delivers the hints of other servers until the connection fails or ctx ends.
func (w *Wire) listen(ctx context.Context, conn *pgx.Conn, receive func(bus.Hint)) error {
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{w.channel}.Sanitize()); err != nil {
		return err
	}
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
func (w *Wire) forward(ctx context.Context, conn *pgx.Conn) error {
	if err := w.execute(ctx, conn, "SET synchronous_commit = off"); err != nil {
		return err
	}
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
