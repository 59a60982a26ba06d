package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"mailroom"
	"mailroom/api"
	"mailroom/app/datadir"
	"mailroom/channel/platformtest"
	"mailroom/internal/machinetest"
	"mailroom/internal/pgtest"
)

// waitingServer is a server whose database does not run yet.
type waitingServer struct {
	*fixture
	database *pgtest.Cluster
	address  string
	started  chan error // receives the result of process.start
}

func newWaitingServer(t *testing.T) *waitingServer {
	t.Helper()
	c, err := pgtest.Start(t.Context(), pgtest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	s := &waitingServer{fixture: &fixture{t: t, dir: datadir.Dir(t.TempDir())}, database: c,
		address: machinetest.Reserve(t), started: make(chan error, 1)}
	s.configure(fmt.Sprintf("[store]\nkind = \"postgres\"\n[postgres]\nurl = %q\n", c.URL()))
	s.server = &process{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.started <- s.server.start(string(s.dir), append(os.Environ(), "MAILROOM_DATA="+string(s.dir)),
			"--listen", s.address)
	}()
	t.Cleanup(func() {
		<-ended
		s.server.kill()
	})
	platformtest.WaitFor(t, "the server answers while it waits", func() bool {
		status, _ := s.get("/readyz")
		return status == http.StatusServiceUnavailable
	})
	return s
}

// get returns the status and the body of an answer, 0 if there is none.
func (s *waitingServer) get(path string) (int, string) {
	r, err := http.Get("http://" + s.address + path)
	if err != nil {
		return 0, ""
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, ""
	}
	return r.StatusCode, string(text)
}

// A server that is started before its database waits for it, answers that it lives and is not ready, and says
// in its log what it waits for.
func TestTheStartWaitsForADatabaseThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	s := newWaitingServer(t)
	if status, text := s.get("/healthz"); status != http.StatusOK || !strings.Contains(text, `"status":"ok"`) {
		t.Errorf("healthz: got %d %s, want 200", status, text)
	}
	status, text := s.get("/v1/threads")
	var p api.Problem
	if err := json.Unmarshal([]byte(text), &p); err != nil || status != http.StatusServiceUnavailable ||
		p.Code != mailroom.CodeUnavailable {
		t.Errorf("a request: got %d %s, want unavailable", status, text)
	}
	if strings.Contains(text, "user") || strings.Contains(text, "/run") {
		t.Errorf("the answer tells of the database: %s", text)
	}
	if err := s.database.Restart(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	if err := <-s.started; err != nil {
		t.Fatal(err)
	}
	platformtest.WaitFor(t, "the server is ready", func() bool {
		status, _ := s.get("/readyz")
		return status == http.StatusOK
	})
	log := s.server.output.all()
	if got := strings.Count(log, "the database does not answer: the start waits for it"); got != 1 ||
		!strings.Contains(log, "start_timeout=10m0s") || !strings.Contains(log, "the database answers") {
		t.Errorf("the log tells %d times that the server waits, want once, with the timeout and the end:\n%s", got, log)
	}
	s.must(s.server.shutdown())
}

func TestAStopEndsTheWaitForTheDatabase(t *testing.T) {
	t.Parallel()
	s := newWaitingServer(t)
	if code, stderr := s.run(t.Context(), &strings.Builder{}, "stop"); code != exitDone {
		t.Fatalf("stop: exit code %d: %s", code, stderr)
	}
	if err := <-s.started; err == nil || s.server.exit != nil {
		t.Errorf("the stopped server: %v, %v, want that it ended with code 0 before it listened", err, s.server.exit)
	}
}

// A database that refuses the server is an error at once, though start_timeout is long.
func TestARefusedDatabaseEndsTheStart(t *testing.T) {
	t.Parallel()
	url := pgtest.Durable(t).URL()
	for want, address := range map[string]string{
		"does not exist (SQLSTATE 3D000)":  strings.Replace(url, "dbname=postgres", "dbname=none", 1),
		"role \"stranger\" does not exist": strings.Replace(url, "user=pgtest", "user=stranger", 1),
	} {
		h := &fixture{t: t, dir: datadir.Dir(t.TempDir())}
		h.configure(fmt.Sprintf("[store]\nkind = \"postgres\"\n[postgres]\nurl = %q\n", address))
		code, stderr := h.run(t.Context(), &strings.Builder{}, "serve", "--listen", machinetest.Reserve(t))
		if code != exitFailed || !strings.Contains(stderr, want) {
			t.Errorf("got exit code %d: %s, want %q", code, stderr, want)
		}
	}
}
