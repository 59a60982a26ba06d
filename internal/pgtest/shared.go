package pgtest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
)

// shared starts the cluster of this test binary.
//
// archtest: one cluster per process; it ends with the process, see Cluster.watch.
var shared = sync.OnceValues(func() (*Cluster, error) {
	return Start(context.Background(), Options{Settings: unsynced()})
})

// unsynced are the settings of a cluster that no test kills.
func unsynced() []string {
	return []string{"fsync=off", "full_page_writes=off", "max_connections=200", "shared_buffers=64MB"}
}

// Shared returns the cluster that all tests of this binary share. It does not sync, so no test may
// kill it. Without PostgreSQL the test fails.
func Shared(t testing.TB) *Cluster {
	t.Helper()
	c, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Own starts a cluster for one test, which does not kill it. Tests that read the entries of all threads need one
// if they run beside others: in the shared cluster, the open transactions of the others hide entries.
func Own(t testing.TB) *Cluster {
	t.Helper()
	return copied(t, Options{Settings: unsynced()})
}

// Durable starts a cluster for one test, which may kill it. It syncs as a server in production.
func Durable(t testing.TB, settings ...string) *Cluster {
	t.Helper()
	return copied(t, Options{Settings: settings})
}

// Secure is Durable with TLS on a port of 127.0.0.1.
func Secure(t testing.TB, certificate, key []byte) *Cluster {
	t.Helper()
	return copied(t, Options{Certificate: certificate, Key: key})
}

// template has the files of a new cluster, for the tests that need a cluster of their own: to copy them
// takes a tenth of the time of initdb. So these clusters have the same system identifier.
//
// archtest: one per process; its folder ends with the process, see Cluster.watch.
var template = sync.OnceValues(func() (*Cluster, error) {
	return prepare(Options{}, func(c *Cluster) error { return c.initialize(context.Background()) })
})

// copied starts a cluster for one test.
func copied(t testing.TB, o Options) *Cluster {
	t.Helper()
	from, err := template()
	if err != nil {
		t.Fatal(err)
	}
	c, err := create(t.Context(), o, func(c *Cluster) error {
		if err := c.run(t.Context(), "cp", "-a", from.data(), c.data()); err != nil {
			return err
		}
		return c.secure(o)
	})
	return untilEnd(t, c, err)
}

// StandbyOf starts a standby of c for one test, see [Cluster.Standby].
func StandbyOf(t testing.TB, c *Cluster) *Cluster {
	t.Helper()
	s, err := c.Standby(t.Context())
	return untilEnd(t, s, err)
}

// untilEnd closes a cluster at the end of the test.
func untilEnd(t testing.TB, c *Cluster, err error) *Cluster {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// Schema returns the name of a schema that does not exist, and drops it at the end of the test.
func (c *Cluster) Schema(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test_%d_%d", os.Getpid(), c.schemas.Add(1))
	t.Cleanup(func() {
		err := c.with(context.Background(), func(conn *pgx.Conn) error {
			_, err := conn.Exec(context.Background(), "SET client_min_messages = error; DROP SCHEMA IF EXISTS "+name+" CASCADE")
			return err
		})
		if err != nil {
			t.Errorf("drop the schema of a test: %v", err)
		}
	})
	return name
}
