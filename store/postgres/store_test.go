package postgres

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"mailroom/internal/pgtest"
	"mailroom/store"
	"mailroom/store/storetest"
)

// openIn opens a store in a schema of the shared cluster. It waits for minutes where a server waits for
// about a second: on a busy machine a test may be silent for long, and transactions that create the same
// threads in different orders block each other, and others, until PostgreSQL finds the deadlock after 1 s.
func openIn(t testing.TB, schema, node string) *Store {
	t.Helper()
	return openOn(t, pgtest.Shared(t), schema, node)
}

func openOn(t testing.TB, c *pgtest.Cluster, schema, node string) *Store {
	t.Helper()
	s, err := Open(t.Context(), Options{
		URL: c.URL(), Schema: schema, Node: node, ConnectTimeout: time.Minute, LockTimeout: 5 * time.Minute,
		IdleInTransaction: 5 * time.Minute, AllowUnsafe: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) {
	t.Parallel()
	// Creating the tables takes most of a short test's time, so all tests use those of one schema.
	cluster := pgtest.Own(t)
	schema := cluster.Schema(t)
	first := true
	storetest.Run(t, func(t *testing.T) store.Store {
		s := openOn(t, cluster, schema, "node")
		if !first {
			empty := "DELETE FROM " + strings.Join(rowTables(), "; DELETE FROM ")
			if _, err := s.writer.conn.PgConn().Exec(context.Background(), empty).ReadAll(); err != nil {
				t.Fatal(fmt.Errorf("empty the tables: %w", err))
			}
		}
		first = false
		return s
	})
}
