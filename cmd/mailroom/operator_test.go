package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/app/datadir"
	"mailroom/client"
	"mailroom/internal/proc"
)

// readAttempts returns what a hostile agent tries: names, and shell commands that succeed if access is
// possible. A program that is not installed counts as refused. Every agent may do the last one.
func readAttempts() [][2]string {
	return [][2]string{
		{"read the token", `grep -q . "$DATA/token"`},
		{"read the store", `grep -q . "$DATA/mailroom.db"`},
		{"read another thread's file", `grep -q theirs "$THEIRS"`},
		{"read the token through another process", `grep -q . /proc/[0-9]*/root"$DATA/token"`},
		{"read the token past the mount",
			`umount "$DATA"; unshare -m umount "$DATA"; nsenter -t "$PPID" -m grep -q . "$DATA/token" || grep -q . "$DATA/token"`},
		{"read a secret of the server's environment", `cat /proc/[0-9]*/environ | grep -aq hush-from-the-server`},
		{"read the secret of a target", `grep -q . "$SECRET"`},
		{"get a variable with the secret of a channel", `test -n "$MAILROOM_TEST_SECRET"`},
		{"read a file that the server was started with", `(grep -q . <&3 || grep -q . /proc/self/fd/3)`},
		{"change the configuration", `: >>"$DATA/mailroom.toml"`},
		{"approve a ticket", `"$MAILROOM" --data "$DATA" approve asks`},
		{"read a file sent to its thread", `grep -q mine "$(echo "$INPUT" | sed -n 's/^file mine.txt //p')"`},
	}
}

// neverPossible reports whether an attempt is refused without isolation too.
func neverPossible(attempt string) bool {
	return strings.HasPrefix(attempt, "get a variable") || strings.HasSuffix(attempt, "the server was started with")
}

// isolationCase is a user that the server runs as, an isolation of its agent, and what the agent can
// access.
type isolationCase struct {
	server    string // "root" or "ordinary"
	isolation string
	user      string // user of the agent
	shown     string // as in mailroom agents
	own       bool   // the agent can read files of its own thread
	open      bool   // every attempt succeeds
}

// ordinaryUID is an unprivileged user, which need not exist on the machine.
const ordinaryUID = 54321

func TestAnAgentIsNotTheOperator(t *testing.T) {
	if runtime.GOOS != "linux" {
		if kind, err := proc.Probe(t.Context()); kind != proc.KindNone || err == nil {
			t.Errorf("Probe() = %s, %v; want none and an error", kind, err)
		}
		return
	}
	var table bytes.Buffer
	out := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "SERVER\tISOLATION\tTHE AGENT TRIES TO\tOUTCOME")
	for _, s := range isolationCases(t) {
		got := s.run(t)
		for i, a := range readAttempts() {
			outcome := "refused"
			if got[a[0]] {
				outcome = "POSSIBLE"
			}
			fmt.Fprintf(out, "%s\t%s\t%s\t%s\n", s.server, s.shown, a[0], outcome)
			last := i == len(readAttempts())-1
			switch {
			case last && got[a[0]] != (s.own || s.open):
				t.Errorf("server of %s, %s: the agent can read its own file: %t, want %t", s.server, s.shown, got[a[0]],
					s.own || s.open)
			case !last && got[a[0]] && (!s.open || neverPossible(a[0])):
				t.Errorf("server of %s, %s: the agent can %s", s.server, s.shown, a[0])
			}
		}
		// The refusals prove something only if the same attempts succeed without isolation.
		if s.open && (!got["read the token"] || !got["approve a ticket"] || !got["read the secret of a target"]) {
			t.Errorf("server of %s without isolation: access %v, want the tokens and the approval", s.server, got)
		}
	}
	if err := out.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Logf("access of a hostile agent:\n%s", table.String())
}

// isolationCases returns the cases that this machine supports.
func isolationCases(t *testing.T) (all []isolationCase) {
	servers := []string{"ordinary"}
	if os.Geteuid() == 0 {
		servers = append(servers, "root")
	}
	for _, server := range servers {
		all = append(all, isolationCase{server: server, isolation: "none", shown: "none", open: true})
		for _, kind := range []proc.Kind{proc.KindLandlock, proc.KindNamespace} {
			if why := proc.Try(t.Context(), kind); why != nil {
				t.Logf("this machine does not support %s: %v", kind, why)
				continue
			}
			all = append(all, isolationCase{server: server, isolation: string(kind), shown: string(kind), own: true})
			if server == "root" && kind == proc.KindNamespace {
				all = append(all, isolationCase{server: server, isolation: string(kind), user: "nobody",
					shown: "namespace, user nobody", own: true})
			}
		}
		if server == "root" {
			all = append(all, isolationCase{server: server, isolation: "none", user: "nobody", shown: "user nobody", own: true})
		}
	}
	return all
}

// run starts a server, lets its agent try all readAttempts, and reports which succeeded.
func (s isolationCase) run(t *testing.T) map[string]bool {
	t.Helper()
	base := t.TempDir()
	data := filepath.Join(base, "data")
	program := filepath.Join(base, "mailroom")
	mine, theirs := filepath.Join(data, "files", "ab", "mine.txt"), filepath.Join(data, "files", "cd", "theirs.txt")
	var script strings.Builder
	script.WriteString("#!/bin/sh\nexec 2>/dev/null\nINPUT=$(cat)\n")
	for i, a := range readAttempts() {
		fmt.Fprintf(&script, "if (%s) >/dev/null; then echo %d; fi\n", a[1], i)
	}
	script.WriteString("echo done\n")
	secret, inherited := filepath.Join(base, "secret"), filepath.Join(base, "inherited")
	settings := s.settings(base, theirs)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string][]byte{
		program: binary, filepath.Join(base, "script"): []byte(script.String()),
		filepath.Join(data, "mailroom.toml"): []byte(settings),
		mine:                                 []byte("mine"), theirs: []byte("theirs"),
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, text, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{secret, inherited} {
		if err := os.WriteFile(path, []byte("hush\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	left, err := os.Open(inherited)
	if err != nil {
		t.Fatal(err)
	}
	defer left.Close()
	p := &process{program: program, extra: []*os.File{left}}
	if os.Geteuid() == 0 {
		// Only the server's user may enter the folder; its parents are open.
		err = errors.Join(os.Chmod(filepath.Dir(base), 0o755), os.Chmod(data, 0o700))
		if s.server == "ordinary" {
			p.attr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinaryUID, Gid: ordinaryUID}}
			err = errors.Join(err, os.Chown(base, ordinaryUID, ordinaryUID), os.Chown(secret, ordinaryUID, ordinaryUID),
				filepath.WalkDir(data, func(path string, _ fs.DirEntry, e error) error {
					return errors.Join(e, os.Chown(path, ordinaryUID, ordinaryUID))
				}))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	env := append(os.Environ(), "MAILROOM_DATA="+data, "HOME="+base, "MAILROOM_TOKEN=hush-from-the-server", "TMPDIR="+base,
		"MAILROOM_TEST_SECRET=hush-from-the-server")
	if err := p.start(base, env); err != nil {
		t.Fatal(err)
	}
	defer p.kill()
	reply, shown := s.runAgent(t, datadir.Dir(data), p.url, mine)
	if left, err := filepath.Glob(filepath.Join(base, "mailroom-files-*")); err != nil || len(left) > 0 {
		t.Errorf("server of %s, %s: copies of files remain: %q, %v", s.server, s.shown, left, err)
	}
	if shown != s.shown {
		t.Errorf("server of %s: isolation %q, want %q", s.server, shown, s.shown)
	}
	got := map[string]bool{}
	for i, a := range readAttempts() {
		got[a[0]] = slices.Contains(strings.Fields(reply), strconv.Itoa(i))
	}
	if !strings.HasSuffix(reply, "done\n") {
		t.Errorf("server of %s, %s: reply %q, want it to end with done", s.server, s.shown, reply)
	}
	return got
}

// settings returns the configuration of a server whose files are in base.
func (s isolationCase) settings(base, theirs string) string {
	secret := filepath.Join(base, "secret")
	return fmt.Sprintf(
		"[agents.probe]\nkind = \"exec\"\ncommand = [\"/bin/sh\", %q]\ndir = \"/\"\nisolation = %q\nuser = %q\n"+
			"env_allow = [\"PATH\", \"HOME\", \"TMPDIR\", \"MAILROOM_TEST_SECRET\"]\n"+
			"env = { DATA = %q, THEIRS = %q, MAILROOM = %q, SECRET = %q }\n[agents.tour]\npace = \"0s\"\n"+
			"[targets.hook]\nkind = \"webhook\"\nurl = \"https://alerts.example.org\"\ntoken_file = %q\n"+
			"[channels.hooks]\nkind = \"webhook\"\nagent = \"tour\"\nurl = \"https://hooks.example.org\"\ntoken_env = \"MAILROOM_TEST_SECRET\"\n",
		filepath.Join(base, "script"), s.isolation, s.user, filepath.Join(base, "data"), theirs,
		filepath.Join(base, "mailroom"), secret, secret)
}

// runAgent creates a ticket, and runs the agent with a file in its thread. It returns the agent's reply
// and its isolation as the API shows it.
func (s isolationCase) runAgent(t *testing.T, data datadir.Dir, url, mine string) (reply, shown string) {
	t.Helper()
	token, err := data.Token()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	c := client.New(url, token)
	if _, err := c.Submit(ctx, api.Submit{Thread: "asks", Agent: "tour", Text: "go"}); err != nil {
		t.Fatal(err)
	}
	if err := awaitEntry(data, "asks", "run.waiting"); err != nil {
		t.Fatal(err)
	}
	sent, err := c.Submit(ctx, api.Submit{Thread: "probing", Agent: "probe", Parts: []mailroom.Part{
		{Type: "text", Text: "look"}, {Type: "file", Name: "mine.txt", URI: "file://" + mine},
	}})
	if err != nil {
		t.Fatal(err)
	}
	run, err := c.WaitRun(ctx, sent.Run, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if run.Status != mailroom.StatusCompleted || run.Reply == nil {
		t.Fatalf("server of %s, %s: the run is %+v", s.server, s.shown, run)
	}
	agents, err := c.Agents(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range agents {
		if a.Name == "probe" && a.Isolation != nil {
			shown = *a.Isolation
		}
	}
	return *run.Reply, shown
}
