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

// openIn opens a store in a schema of the shared cluster. Its transactions may be silent for minutes: on a
// busy machine a test is.
func openIn(t testing.TB, schema, node string) *Store {
	t.Helper()
	return openOn(t, pgtest.Shared(t), schema, node)
}

func openOn(t testing.TB, c *pgtest.Cluster, schema, node string) *Store {
	t.Helper()
	s, err := Open(t.Context(), Options{
		URL: c.URL(), Schema: schema, Node: node, IdleInTransaction: 5 * time.Minute, AllowUnsafe: true,
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
