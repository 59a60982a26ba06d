package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"mailroom"
	"mailroom/api"
	"mailroom/channel/platformtest"
	"mailroom/entry"
	"mailroom/store"
	"mailroom/store/postgres"
)

// A server that stops while it has a run claims nothing more and says that it is not ready. Another
// one takes its duties and runs what it accepts. Its own run ends as usual, and its workers leave.
func TestAServerDrainsBesideOthers(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "")
	h.configure(
		fmt.Sprintf(
			"isolation = \"none\"\ndefault_agent = \"wait\"\n[agents.wait]\nkind = \"exec\"\ncommand = [\"sh\", \"-c\", %q]\n",
			fmt.Sprintf("cd %q; read -r text; until test $text != slow || test -e open; do sleep 0.02; done; echo done $text",
				string(h.dir))))
	c := newNodes(h, 2)
	stopping, other := c.all[0], c.all[1]
	stopping.serve()
	stopping.waitDuty()
	submit := func(thread, text string) string {
		out, err := stopping.client().Submit(t.Context(),
			api.Submit{Thread: thread, Messages: []api.NewMessage{{Text: text}}})
		if err != nil {
			t.Fatal(err)
		}
		return out.Run
	}
	slow := submit("t", "slow")
	stopping.waitEntries("t", entry.KindStarted, 1)
	other.serve()

	leaving, process := stopping.client(), stopping.server
	pid := process.cmd.Process.Pid
	sendSignal(t, stopping, syscall.SIGTERM)
	platformtest.WaitFor(t, "the server to be not ready", func() bool {
		_, err := leaving.Ready(t.Context())
		return mailroom.CodeOf(err) == mailroom.CodeUnavailable && strings.Contains(err.Error(), "shutting down")
	})
	other.waitDuty()
	quick := submit("u", "quick")
	other.waitEntries("u", entry.KindCompleted, 1)
	workers, err := other.client().Workers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range workers {
		if w.PID == pid && len(w.Duties) > 0 {
			t.Errorf("worker %s of the stopping server has the duties %q", w.ID, w.Duties)
		}
	}
	if err := os.WriteFile(filepath.Join(string(h.dir), "open"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code := process.waitExit(t); code != 0 {
		t.Errorf("the server ended with exit code %d: %s", code, process.output.all())
	}
	for _, id := range []string{slow, quick} {
		run, err := other.client().Run(t.Context(), id)
		if err != nil || run.Status != mailroom.StatusCompleted || run.Attempt != 1 {
			t.Errorf("run %+v, %v, want it completed in the first attempt", run, err)
		}
	}
	if workers, err = other.client().Workers(t.Context()); err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(workers, func(w api.Worker) bool { return w.PID == pid }) {
		t.Errorf("workers %+v, want none of the server that has stopped", workers)
	}
}

// waitDuty waits until the clean-up of the store is a duty of the server.
func (h *fixture) waitDuty() {
	h.t.Helper()
	platformtest.WaitFor(h.t, "the duty of maintenance", func() bool {
		workers, err := h.client().Workers(h.t.Context())
		if err != nil {
			h.t.Fatal(err)
		}
		return slices.ContainsFunc(workers, func(w api.Worker) bool {
			return w.PID == h.server.cmd.Process.Pid && slices.Contains(w.Duties, "maintenance")
		})
	})
}

func TestTablesAreMigratedWithoutAServer(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "")
	check := func(code int, want string, args ...string) {
		t.Helper()
		var out bytes.Buffer
		if got, stderr := h.run(t.Context(), &out, append([]string{"migrate"}, args...)...); got != code ||
			!strings.Contains(out.String()+stderr, want) {
			t.Errorf("migrate %q: exit code %d, %s%s, want %d and %q", args, got, out.String(), stderr, code, want)
		}
	}
	check(exitUsage, "which its server migrates at the start")
	c := newNodes(h, 1)
	check(exitDone, "schema mailroom: created the tables in version ")
	check(exitDone, "already; programs that know version 1 or later can use them", "--store", c.url)
	check(exitDone, "there is nothing to remove; programs that know version 1", "--contract")
	check(exitDone, `"after":{"version":`, "--contract", "-o", "json")

	conn, err := pgx.Connect(t.Context(), c.url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	set := func(minCode int) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), "UPDATE mailroom.schema_version SET version = 99, min_code = $1",
			minCode); err != nil {
			t.Fatal(err)
		}
	}
	const tooOld = "the tables have version 99 and require a program that knows version 98 or later, this one knows version "
	set(98)
	check(exitServer, tooOld)
	refused := &process{}
	if err := refused.start(string(h.dir), append(os.Environ(), "MAILROOM_DATA="+string(h.dir))); err == nil ||
		!strings.Contains(refused.output.all(), tooOld) {
		t.Errorf("a server on tables for newer programs: error %v, output %s", err, refused.output.all())
	}
	set(1) // of a newer program, which lets older ones run
	h.serve()
	wantMarked(t, c.url)
}

// wantMarked checks that a server writes which version of the tables it knows, so that a contraction
// can refuse.
func wantMarked(t *testing.T, url string) {
	t.Helper()
	s, err := postgres.Open(t.Context(), postgres.Options{URL: url, MustExist: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var workers []*store.Worker
	for end := time.Now().Add(waitTimeout); len(workers) == 0 && time.Now().Before(end); {
		err := s.View(t.Context(), func(r store.Reader) (err error) {
			workers, err = r.Workers()
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range workers {
		if w.Tables != s.Tables() || w.Tables == 0 {
			t.Errorf("worker %s knows version %d of the tables, want %d", w.ID, w.Tables, s.Tables())
		}
	}
}
