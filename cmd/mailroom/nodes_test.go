package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"mailroom"
	"mailroom/api"
	"mailroom/app/datadir"
	"mailroom/channel/platformtest"
	"mailroom/doctor"
	"mailroom/entry"
	"mailroom/internal/pgtest"
	"mailroom/internal/version"
	"mailroom/store/postgres"
)

// nodes are servers in processes of their own on one database. Each has a data folder with the
// configuration of the first one; its agents use the folder of the first.
type nodes struct {
	t       *testing.T
	cluster *pgtest.Cluster
	url     string // of the database
	all     []*fixture
}

// newNodes starts no server yet.
func newNodes(first *fixture, n int) *nodes {
	first.t.Helper()
	cluster := pgtest.Durable(first.t)
	return newNodesOn(cluster, fmt.Sprintf("url = %q", cluster.URL()), first, n)
}

// newNodesOn is newNodes for servers that find the database with these settings.
func newNodesOn(cluster *pgtest.Cluster, database string, first *fixture, n int) *nodes {
	t := first.t
	t.Helper()
	c := &nodes{t: t, cluster: cluster, url: cluster.URL()}
	token := filepath.Join(t.TempDir(), "operator")
	if err := os.WriteFile(token, []byte("one-token-of-all-servers\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	settings, err := os.ReadFile(first.dir.Config())
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		h := first
		if i > 0 {
			h = &fixture{t: t, dir: datadir.Dir(t.TempDir())}
		}
		h.configure(
			fmt.Sprintf(
				"lease = \"3s\"\nrenew = \"500ms\"\nsweep = \"200ms\"\n%s\n[store]\nkind = \"postgres\"\n[postgres]\n%s\n[token]\noperator_file = %q\n", settings, database, token))
		c.all = append(c.all, h)
	}
	t.Cleanup(func() { // before the database ends
		for _, h := range c.all {
			if h.server != nil {
				h.server.kill()
			}
		}
		c.wantSound()
	})
	return c
}

// wantListed checks the list of servers, all of which run.
func (c *nodes) wantListed() {
	c.t.Helper()
	var list bytes.Buffer
	if code, stderr := c.all[0].run(c.t.Context(), &list, "nodes"); code != exitDone {
		c.t.Errorf("list the servers: exit code %d: %s", code, stderr)
	}
	var listed []string
	for line := range strings.Lines(list.String()) {
		if fields := strings.Fields(line); len(fields) > 3 {
			listed = append(listed, fields[2]+" "+fields[3])
		}
	}
	want := []string{"PID VERSION"}
	for _, h := range c.all {
		want = append(want, fmt.Sprintf("%d %s", h.server.cmd.Process.Pid, version.Read().Version))
	}
	slices.Sort(listed)
	slices.Sort(want)
	if !slices.Equal(listed, want) {
		c.t.Errorf("listed servers are %q, want %q", listed, want)
	}
}

// wantSound runs doctor on the database.
func (c *nodes) wantSound() {
	c.t.Helper()
	ctx := context.WithoutCancel(c.t.Context())
	s, err := postgres.Open(ctx, postgres.Options{URL: c.url})
	if err != nil {
		c.t.Error(err)
		return
	}
	report, err := doctor.Check(ctx, s)
	if err != nil {
		c.t.Error(err)
	}
	for _, f := range report.Findings {
		c.t.Error(f)
	}
	if err := s.Close(); err != nil {
		c.t.Error(err)
	}
}

// attachStandby attaches what the database shows as an asynchronous standby.
func (c *nodes) attachStandby() {
	c.t.Helper()
	standby, err := pgconn.Connect(c.t.Context(), c.url+" replication=true")
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		_ = standby.Close(context.WithoutCancel(c.t.Context())) // the database ends anyway
	})
}

const failoverRisk = "a failover of the database to an asynchronous standby may lose acknowledged work"

// TestTwoServersShareADatabase sends through one server and reads at the other; the first one is
// killed while it runs an agent.
func TestTwoServersShareADatabase(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "")
	h.configure(fmt.Sprintf("isolation = \"none\"\ndefault_agent = \"shout\"\n[agents.shout]\nkind = \"exec\"\ncommand = [\"sh\", \"-c\", %q]\n",
		fmt.Sprintf("cd %q; read -r text; test $MAILROOM_ATTEMPT != 1 || test $text != slow || cat gate; echo $text | tr a-z A-Z", string(h.dir))))
	c := newNodes(h, 2)
	c.attachStandby()
	for _, n := range c.all {
		n.serve()
		if n.server.output.line(failoverRisk) == "" {
			t.Errorf("the server does not warn of an asynchronous standby: %s", n.server.output.all())
		}
	}
	for i, n := range c.all {
		var out bytes.Buffer
		if code, stderr := n.run(t.Context(), &out, "send", "--thread", fmt.Sprint("t", i), "hello"); code != exitDone || out.String() != "HELLO\n" {
			t.Errorf("send at server %d: exit code %d, %q, %s", i, code, out.String(), stderr)
		}
		out.Reset()
		if code, stderr := c.all[1-i].run(t.Context(), &out, "attach", fmt.Sprint("t", i)); code != exitDone || out.String() != "HELLO\n" {
			t.Errorf("attach at the other server: exit code %d, %q, %s", code, out.String(), stderr)
		}
	}
	sent, err := c.all[0].client().Submit(t.Context(), api.Submit{Thread: "t0", Messages: []api.NewMessage{{Text: "slow"}}})
	if err != nil {
		t.Fatal(err)
	}
	var worker api.Worker
	platformtest.WaitFor(t, "the agent", func() bool {
		workers, err := h.client().Workers(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(workers, func(w api.Worker) bool { return w.Running == 1 })
		if at >= 0 {
			worker = workers[at]
		}
		return at >= 0
	})
	killed := slices.IndexFunc(c.all, func(n *fixture) bool { return n.server.cmd.Process.Pid == worker.PID })
	if killed < 0 {
		t.Fatalf("no server has the worker %+v", worker)
	}
	c.all[killed].server.kill()
	alive := c.all[1-killed]
	alive.waitEntries("t0", entry.KindCompleted, 2)
	run, err := alive.client().Run(t.Context(), sent.Run)
	if err != nil || run.Status != mailroom.StatusCompleted || run.Attempt != 2 {
		t.Errorf("run %+v, %v, want it completed in the second attempt", run, err)
	}
	c.all[killed].serve() // its own workers end at once, the other server's do not
	if code, stderr := c.all[killed].run(t.Context(), new(bytes.Buffer), "send", "--thread", "t1", "again"); code != exitDone {
		t.Errorf("send after the restart: exit code %d: %s", code, stderr)
	}
	for _, x := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"doctor"}, exitDone, "no findings in "},
		{[]string{"doctor"}, exitDone, failoverRisk},
		{[]string{"doctor", "--store", c.url}, exitDone, "no findings in "},
		{[]string{"doctor", "--backup", filepath.Join(t.TempDir(), "copy")}, exitUsage, "the store is a PostgreSQL database"},
		{[]string{"restore", "copy.db"}, exitUsage, "the store is a PostgreSQL database"},
		{[]string{"doctor", "--store", c.url + " dbname=template1"}, exitServer, "the database has no store in the schema mailroom"},
	} {
		var out bytes.Buffer
		if code, stderr := alive.run(t.Context(), &out, x.args...); code != x.code || !strings.Contains(out.String()+stderr, x.want) {
			t.Errorf("%q: exit code %d, %s %s, want %d and %q", x.args, code, out.String(), stderr, x.code, x.want)
		}
	}
	if workers, err := alive.client().Workers(t.Context()); err != nil || len(workers) < 2 {
		t.Errorf("workers %+v, %v, want those of two servers", workers, err)
	}
}

// TestServersGetHintsAboutEachOthersRuns submits at one server what the other one runs, reads or stops. The
// second part ends the connections of the wire again and again.
func TestServersGetHintsAboutEachOthersRuns(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "")
	// A run writes a part of its reply and waits for a line of its own.
	h.configure(
		fmt.Sprintf(
			"isolation = \"none\"\ndefault_agent = \"wait\"\nruns = 1\n[agents.wait]\nkind = \"exec\"\ncommand = [\"sh\", \"-c\", %q]\n", fmt.Sprintf("cd %q; read -r text; echo begin $text; until test -e open-$text; do sleep 0.02; done; echo end $text",
				string(h.dir))))
	c := newNodes(h, 2)
	for _, n := range c.all {
		n.serve()
	}
	for _, kind := range []string{"wire", "cut"} {
		submit := func(thread string) string {
			out, err := c.all[0].client().Submit(t.Context(),
				api.Submit{Thread: kind + thread, Messages: []api.NewMessage{{Text: kind + thread}}})
			if err != nil {
				t.Fatal(err)
			}
			return out.Run
		}
		cut := func() {
			if kind != "cut" {
				return
			}
			if _, err := c.cluster.Terminate(t.Context(), "mailroom_wire"); err != nil {
				t.Fatal(err)
			}
		}
		cut()
		runs := []string{submit("a"), submit("b")} // one slot each, so on two servers
		for i, thread := range []string{"a", "b"} {
			c.all[1].waitEntries(kind+thread, entry.KindStarted, 1)
			cut()
			if i == 0 { // follow it at both servers, so at one without the run
				var out [2]bytes.Buffer
				var all sync.WaitGroup
				for j, n := range c.all {
					all.Go(func() {
						if code, stderr := n.run(t.Context(), &out[j], "attach", kind+thread); code != exitDone {
							t.Errorf("attach at server %d: exit code %d: %s", j, code, stderr)
						}
					})
				}
				if err := os.WriteFile(filepath.Join(string(h.dir), "open-"+kind+thread), nil, 0o600); err != nil {
					t.Fatal(err)
				}
				all.Wait()
				if want := fmt.Sprintf("begin %[1]s\nend %[1]s\n", kind+thread); out[0].String() != want ||
					out[1].String() != want {
					t.Errorf("followed %q and %q, want %q", out[0].String(), out[1].String(), want)
				}
				continue
			}
			for _, n := range c.all { // one of them runs it
				if _, err := n.client().CancelRun(t.Context(), runs[i]); err != nil {
					t.Fatal(err)
				}
				cut()
			}
			c.all[0].waitEntries(kind+thread, entry.KindCancelled, 1)
		}
	}
}

// TestAChannelMovesToAnotherServer kills, pauses and stops the server that has the channel, and cuts it off
// from the database. Each message is answered once. No two servers poll at the same time, but a server that
// was paused may finish the step at which it was.
func TestAChannelMovesToAnotherServer(t *testing.T) {
	t.Parallel()
	b := newTelegramFixture(t, "")
	b.tg.Up(t)
	c := newNodes(b.fixture, 2)
	first, second := c.all[0], c.all[1]
	network := pgtest.StartProxy(t, c.cluster)
	second.replaceInConfig(strings.TrimPrefix(b.tg.URL, "http://"), strings.Replace(b.tg.Addr, "127.0.0.1", "localhost", 1))
	second.replaceInConfig(fmt.Sprintf("%q", c.url), fmt.Sprintf("%q", network.URL()))
	first.serve()
	first.waitChannel("tg", api.ChannelConnected)
	second.serve()
	platformtest.WaitFor(t, "the standby to show the condition at the other server", func() bool {
		reason := second.waitChannel("tg", api.ChannelStandby).Reason
		return reason != nil && strings.HasPrefix(*reason, "run by ") && strings.HasSuffix(*reason, ", where it is connected")
	})
	c.wantListed()
	var want []string
	say := func(text string) {
		b.say(text)
		want = append(want, strings.ToUpper(text))
	}
	// The record of a reply comes after the reply: a server that is killed in between sends it again.
	answered := func(by *fixture) {
		b.waitTexts(want...)
		by.waitEntries(b.out(), entry.KindCompleted, len(want))
	}
	overlaps := 0
	wantOverlaps := func(when string, most int) {
		now := b.tg.Overlaps()
		if now-overlaps > most {
			t.Errorf("%s: %d polls while the other server polled, want at most %d", when, now-overlaps, most)
		}
		overlaps = now
	}
	say("one")
	answered(first)

	first.server.kill()
	say("two") // no server receives it now
	second.waitChannel("tg", api.ChannelConnected)
	answered(second)
	first.serve()
	first.waitChannel("tg", api.ChannelStandby)
	wantOverlaps("after a kill", 0)

	sendSignal(t, second, syscall.SIGSTOP)
	say("three")
	first.waitChannel("tg", api.ChannelConnected)
	answered(first)
	wantOverlaps("during a pause", 0)
	sendSignal(t, second, syscall.SIGCONT)
	second.waitChannel("tg", api.ChannelStandby)
	say("four")
	answered(first)
	wantOverlaps("after a pause", 1)

	if err := first.server.shutdown(); err != nil {
		t.Fatal(err)
	}
	second.waitChannel("tg", api.ChannelConnected)
	say("five")
	answered(second)
	first.serve()
	first.waitChannel("tg", api.ChannelStandby)
	wantOverlaps("after an orderly stop", 0)

	network.SetLink(pgtest.Link{HoldRequests: true, HoldAnswers: true})
	say("six") // the second server may receive it, and cannot store it
	first.waitChannel("tg", api.ChannelConnected)
	answered(first)
	network.SetLink(pgtest.Link{})
	second.waitChannel("tg", api.ChannelStandby)
	say("seven")
	answered(first)
	wantOverlaps("without the database", 0)
	if got := b.agentInputs(); len(got) != 7 {
		t.Errorf("the agent had the inputs %q, want 7", got)
	}
}

// replaceInConfig changes the configuration.
func (h *fixture) replaceInConfig(old, by string) {
	h.t.Helper()
	settings, err := os.ReadFile(h.dir.Config())
	if err != nil {
		h.t.Fatal(err)
	}
	if !strings.Contains(string(settings), old) {
		h.t.Fatalf("the configuration has no %s: %s", old, settings)
	}
	h.configure(strings.ReplaceAll(string(settings), old, by))
}

func sendSignal(t *testing.T, h *fixture, s syscall.Signal) {
	t.Helper()
	if err := h.server.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}
