package pgtest

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// proxiedConn connects through a proxy under a name that ends with suffix.
func proxiedConn(t *testing.T, p *Proxy, suffix string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), p.URL()+suffix)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close(context.Background()) // it may be lost
	})
	return conn
}

// ask sends a query and returns a channel for its error.
func ask(t *testing.T, conn *pgx.Conn, query string) <-chan error {
	asked := make(chan error, 1)
	go func() {
		_, err := conn.Exec(t.Context(), query)
		asked <- err
	}()
	return asked
}

func (c *Cluster) count(t *testing.T, query string, args ...any) int {
	t.Helper()
	rows, err := c.Select(t.Context(), query, args...)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(rows[0][0])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// awaitCount waits until a query returns n.
func (c *Cluster) awaitCount(t *testing.T, n int, query string, args ...any) {
	t.Helper()
	for c.count(t, query, args...) != n {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatalf("%s never returned %d", query, n)
		}
	}
}

func TestAHeldLinkKeepsConnectionsAndDeliversLater(t *testing.T) {
	c := Shared(t)
	schema := c.Schema(t)
	if _, err := c.Select(t.Context(), "CREATE SCHEMA "+schema+" CREATE TABLE x (n int)"); err != nil {
		t.Fatal(err)
	}
	count, insert := "SELECT count(*) FROM "+schema+".x", "INSERT INTO "+schema+".x VALUES (1)"

	p := StartProxy(t, c)
	conn, other := proxiedConn(t, p, ""), proxiedConn(t, p, "_other")
	p.SetLink(Link{HoldAnswers: true})
	lost := ask(t, conn, insert)
	c.awaitCount(t, 1, count) // the server receives it
	select {
	case err := <-lost:
		t.Fatalf("the answer passed: %v", err)
	default:
	}
	p.SetLink(Link{HoldRequests: true, HoldAnswers: true, Only: p.name})
	if err := <-ask(t, other, insert); err != nil {
		t.Errorf("a connection that the fault is not for: %v", err)
	}
	p.SetLink(Link{})
	if err := <-lost; err != nil {
		t.Errorf("the answer that was held: %v", err)
	}

	p.SetLink(Link{HoldRequests: true})
	asked := ask(t, conn, insert)
	if n := c.count(t, count); n != 2 {
		t.Errorf("got %d rows while requests are held, want 2", n)
	}
	p.CloseConnections("_other")
	if err := <-ask(t, other, insert); err == nil {
		t.Error("a closed connection still works")
	}
	p.SetLink(Link{Delay: time.Millisecond})
	if err := <-asked; err != nil {
		t.Errorf("the request that was held: %v", err)
	}
	if n := c.count(t, count); n != 3 {
		t.Errorf("got %d rows after the link was repaired, want 3", n)
	}
}
