package postgres

import (
	"context"
	"time"

	"mailroom/internal/recovery"
	"mailroom/store"
)

const (
	beginView = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
	readClock = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
)

// view is a snapshot of one View. Its transaction begins with the first query.
type view struct {
	store   *Store
	ctx     context.Context
	session *session
	now     time.Time
	failed  error
}

// clock implements reader.clock. View returns its error.
func (v *view) clock() time.Time {
	if v.session == nil {
		_ = v.send("read the clock", nil) // View returns v.failed
	}
	return v.now
}

func (v *view) send(doing string, t trip) error {
	if v.failed == nil {
		if err := v.query(t); err != nil {
			v.failed = refusal(v.ctx, doing, err)
		}
	}
	return v.failed
}

func (v *view) query(t trip) error {
	if v.session != nil {
		return v.session.send(v.ctx, t)
	}
	first, given := trip{{text: beginView}, {text: readClock, each: func(c *columns) error {
		v.now = c.Time()
		return nil
	}}}, false
	for _, one := range t {
		if each := one.each; each != nil {
			one.each = func(c *columns) error {
				given = true
				return each(c)
			}
		}
		first = append(first, one)
	}
	for {
		session, used, err := v.store.freeReader(v.ctx)
		if err != nil {
			return err
		}
		v.session = session
		err = session.send(v.ctx, first)
		if isStale(err) && !given { // they are prepared again
			if err = session.send(v.ctx, trip{{text: "ROLLBACK"}}); err == nil {
				err = session.send(v.ctx, first)
			}
		}
		if err == nil || !used || !v.now.IsZero() || !session.conn.IsClosed() || v.ctx.Err() != nil {
			return err
		}
		// The connection was lost while nothing used it.
	}
}

// freeReader returns a connection; used reports that it is not new.
func (s *Store) freeReader(ctx context.Context) (_ *session, used bool, _ error) {
	for r, ok := s.idle.Take(); ok; r, ok = s.idle.Take() {
		switch {
		case r.conn.IsClosed():
		case r.epoch != s.epoch.Load(): // its server may no longer be the primary
			r.close()
		default:
			return r, true, nil
		}
	}
	r, err := s.join(ctx)
	return r, false, err
}

// end ends the transaction without waiting for the server's answer.
func (v *view) end() {
	s, r := v.store, v.session
	if r == nil || r.conn.IsClosed() {
		s.turns.EndView()
		return
	}
	s.ending.Go(func() {
		defer recovery.Log(nil, "the end of a view")
		defer s.turns.EndView()
		if err := r.send(context.Background(), trip{{text: "COMMIT"}}); err != nil {
			r.close()
			return
		}
		s.idle.Give(r)
	})
}

// View implements [store.Store]. Beyond Options.Readers, Views wait.
func (s *Store) View(ctx context.Context, f func(store.Reader) error) error {
	if err := s.turns.View(ctx); err != nil {
		return err
	}
	v := &view{store: s, ctx: ctx}
	defer v.end()
	if err := f(reader{send: v.send, clock: v.clock, unpin: unpinReader}); err != nil {
		return err
	}
	return v.failed
}
