package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"mailroom"
	"mailroom/store"
	"mailroom/store/internal/format"
	"mailroom/store/internal/sqlstore"
)

const (
	// Transactions at or above this one may still run. In a snapshot it does not change.
	oldestRunning = "pg_snapshot_xmin(pg_current_snapshot())::text::bigint"

	readOrder = "SELECT o.name, " + oldestRunning + `, r.position, r.thread, r.seq,
			(SELECT position FROM entry WHERE position >= ` + oldestRunning + ` ORDER BY position LIMIT 1)
		FROM entry_order o LEFT JOIN
			(SELECT position, thread, seq FROM removed ORDER BY 1 DESC, 2 DESC, 3 DESC LIMIT 1) r ON true
		WHERE o.one = 1`

	// The sizes of rows are known without reading them, so a page ends with the row that exceeds the
	// bytes.
	entriesOfAll = `SELECT position, thread, first_seq, last_seq, lines FROM (
			SELECT *, sum(octet_length(lines)) OVER (ORDER BY position, thread, last_seq ROWS UNBOUNDED PRECEDING)
				- octet_length(lines) AS before FROM (
				SELECT position, thread, first_seq, last_seq, lines FROM entry
				WHERE position >= $1 AND (position, thread, last_seq) > ($1, $2, $3) AND position < ` + oldestRunning + `
				ORDER BY position, thread, last_seq LIMIT $4) page) sized
		WHERE before <= $5 ORDER BY position, thread, last_seq`
)

// allEntries answers a query whose field All is set.
func (r reader) allEntries(q store.EntryQuery) ([]mailroom.Entry, error) {
	all := q.All
	all.Positions = nil
	err := r.queryPinned("read the order of entries", pinSeek, func(c *columns) error {
		all.Order, all.End = c.Text(), store.StartOf(c.Int64())
		all.Removed = store.Position{Commit: c.Int64(), Thread: c.Int64(), Seq: c.Int64()}
		all.Pending = c.Int64() != 0
		return nil
	}, readOrder)
	if err != nil || all.None {
		return nil, err
	}
	var found []mailroom.Entry
	g, more := sqlstore.Gauge{Limit: q.Limit, Budget: q.Bytes}, true
	at, most := all.After, max(pageBytes, q.Bytes) // the last row that was read, and the bytes of a page
	for page := entryRows; ; page *= 2 {
		rows, read := 0, 0
		err := r.queryPinned("read entries of all threads", pinSeek, func(c *columns) error {
			rows++
			commit, thread, first, last, lines := c.Int64(), c.Int64(), c.Int64(), c.Int64(), c.next()
			at, read = store.Position{Commit: commit, Thread: thread, Seq: last}, read+len(lines)
			if !more {
				return nil
			}
			several, err := format.SplitEntries(lines, first, store.WholeRow(q))
			found, more = all.Add(found, several, commit, thread, g.Add)
			return err
		}, entriesOfAll, at.Commit, at.Thread, at.Seq, int64(page), int64(most))
		if err != nil || !more || rows < page && read <= most {
			return found, err
		}
	}
}

// pageBytes bounds the lines of a page of entries of all threads.
const pageBytes = 1 << 20

// sameCluster reports whether the positions are transaction ids of this database cluster. In a
// restored dump they are not.
func sameCluster(ctx context.Context, conn *pgx.Conn) (same bool, err error) {
	err = conn.QueryRow(ctx, `SELECT system = (SELECT system_identifier FROM pg_control_system())
		FROM entry_order WHERE one = 1`).Scan(&same)
	return same, err
}

// renewOrder begins a new order of the entries if the positions come from another cluster. The caller
// holds the migration lock.
func renewOrder(ctx context.Context, conn *pgx.Conn) error {
	same, err := sameCluster(ctx, conn)
	if err == nil && !same {
		err = runLocking(ctx, conn, "SELECT begin_order()")
	}
	if err != nil {
		return fmt.Errorf("check the order of the entries: %w", err)
	}
	return nil
}
