package pgtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// asOwner is the environment variable that makes this test binary an owner of a cluster.
const asOwner = "PGTEST_OWNER"

func TestMain(m *testing.M) {
	how := os.Getenv(asOwner)
	if how == "" {
		os.Exit(m.Run())
	}
	c, err := Start(context.Background(), Options{})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(c.dir)
	if how == "panic" {
		panic("the owner of a cluster panics")
	}
	select {}
}

func connect(t *testing.T, c *Cluster) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), c.URL())
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestAClusterEndsWithItsOwner(t *testing.T) {
	for _, how := range []string{"panic", "kill"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			owner := exec.Command(os.Args[0])
			owner.Env = append(os.Environ(), asOwner+"="+how)
			out, err := owner.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := owner.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(out).ReadString('\n')
			if err != nil {
				t.Error(err)
			}
			if err := owner.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
				t.Error(err)
			}
			if err := owner.Wait(); err == nil {
				t.Error("the owner ended without an error")
			}
			dir := strings.TrimSpace(line)
			if !strings.Contains(dir, "pgtest-") {
				t.Fatalf("the owner reported %q, not the folder of its cluster", dir)
			}
			for deadline := time.Now().Add(stopTimeout); ; {
				if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("%s exists %s after its owner has ended", dir, stopTimeout)
				}
				<-time.After(10 * time.Millisecond)
			}
		})
	}
}

func TestACommitSurvivesAKill(t *testing.T) {
	t.Parallel()
	c := Durable(t)
	ctx := t.Context()
	conn := connect(t, c)
	if _, err := conn.Exec(ctx, "CREATE TABLE kept AS SELECT 7 AS n"); err != nil {
		t.Fatal(err)
	}
	if err := c.Kill(); err != nil {
		t.Fatal(err)
	}
	for conn.Ping(ctx) == nil { // the process of a connection ends as soon as it notices that its parent has
	}
	if err := c.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	conn = connect(t, c)
	defer conn.Close(ctx)
	var n int
	if err := conn.QueryRow(ctx, "SELECT n FROM kept").Scan(&n); err != nil || n != 7 {
		t.Errorf("after the restart: got %d and error %v, want 7", n, err)
	}
}

func TestTerminateEndsTheNamedConnections(t *testing.T) {
	t.Parallel()
	c := Durable(t)
	ctx := t.Context()
	kept, ended := connect(t, c), connect(t, c)
	defer kept.Close(ctx)
	if _, err := ended.Exec(ctx, "SET application_name = 'ended'"); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Terminate(ctx, "ended"); n != 1 || err != nil {
		t.Errorf("got %d terminated connections and error %v, want 1", n, err)
	}
	if err := ended.Ping(ctx); err == nil {
		t.Error("the named connection is still open")
	}
	if err := kept.Ping(ctx); err != nil {
		t.Errorf("another connection was ended: %v", err)
	}
}

func TestAPromotedStandbyHasWhatASynchronousPrimaryAcknowledged(t *testing.T) {
	t.Parallel()
	c := Durable(t, "synchronous_standby_names=*")
	s := StandbyOf(t, c)
	if _, err := c.Select(t.Context(), "CREATE TABLE kept AS SELECT 7 AS n"); err != nil {
		t.Fatal(err)
	}
	if err := c.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := s.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := StandbyOf(t, s) // without one, the promoted server acknowledges nothing
	if _, err := s.Select(t.Context(), "INSERT INTO kept VALUES (8)"); err != nil {
		t.Fatal(err)
	}
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := second.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	second.awaitCount(t, 15, "SELECT sum(n) FROM kept")
}
