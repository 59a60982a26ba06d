package postgres

import (
	"context"
	"slices"
)

const (
	// A server that is paused or cut off in the middle of a trip, which needs several writes, sends no
	// more of it. idle_in_transaction_session_timeout counts between trips only, so another server
	// that needs the locks ends the session. The rows of these views are of sessions of this role that
	// have locked or written rows of this schema, in any table: a trip takes topics and workers before it
	// takes threads, and may end at any statement.
	endStalled = `SELECT pg_terminate_backend(s.pid) FROM (
		SELECT DISTINCT a.pid FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid JOIN pg_class c ON c.oid = l.relation
		WHERE l.locktype = 'relation' AND c.relnamespace = current_schema()::regnamespace
		AND l.mode IN ('RowShareLock', 'RowExclusiveLock') AND a.datname = current_database()
		AND a.usename = current_user AND a.state = 'active' AND a.wait_event = 'ClientRead'
		AND a.query_start < clock_timestamp() - $1::bigint * interval '1 millisecond' AND a.pid <> pg_backend_pid()) s`
	freeThreads  = "SELECT t.id FROM thread t WHERE t.id = ANY ($1::text[]) FOR NO KEY UPDATE SKIP LOCKED"
	namedThreads = "SELECT t.id FROM thread t WHERE t.id = ANY ($1::text[])"
)

// stalledTrips is a factor: within a trip, a session may wait this many times longer than between two trips, because a
// large trip takes some time on a slow line.
const stalledTrips = 2

// lockedThreads returns those of the threads that another transaction holds. First it ends sessions
// that hold threads and wait for the rest of a trip.
func (s *Store) lockedThreads(ids []string) (locked []string) {
	if s.writer.conn.IsClosed() {
		return nil
	}
	var named []string
	free := map[string]bool{}
	err := s.writer.send(context.Background(), trip{
		{text: "BEGIN"},
		{endStalled, []any{stalledTrips * s.options.IdleInTransaction.Milliseconds()}, nil},
		{freeThreads, []any{ids}, func(c *columns) error {
			free[c.Text()] = true
			return nil
		}},
		{namedThreads, []any{ids}, func(c *columns) error {
			named = append(named, c.Text())
			return nil
		}},
	})
	s.rollback()
	if err != nil {
		return nil // the next try finds the reason
	}
	return slices.DeleteFunc(named, func(id string) bool { return free[id] })
}
