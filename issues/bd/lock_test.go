package bd

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mailroom/issues/tracker"
)

// invoke runs a command in a folder, as ann.
func invoke(t *testing.T, dir string, args ...string) (code int, out, talk string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	m := &Main{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Dir: dir, Env: func(name string) string {
		return map[string]string{"BD_ACTOR": "ann"}[name]
	}}
	code = m.Run(t.Context(), args)
	return code, stdout.String(), stderr.String()
}

func TestLockTimeoutNamesTheHolder(t *testing.T) {
	dir := t.TempDir()
	if code, _, talk := invoke(t, dir, "init", "--prefix", "x"); code != 0 {
		t.Fatal(talk)
	}
	folder, err := tracker.OpenDir(dir + "/.beads")
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	synctest.Test(t, func(t *testing.T) {
		lock, err := folder.Lock(t.Context(), "issues.lock", "issues.jsonl", tracker.WaitOptions{Command: "bd import"})
		if err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"create", "one more"}, {"create", "one more", "--lock-timeout", "5s"}} {
			begin := time.Now()
			code, _, talk := invoke(t, dir, args...)
			limit := 30 * time.Second
			if len(args) > 2 {
				limit = 5 * time.Second
			}
			if took := time.Since(begin); code != exitFailed || took < limit || took > limit+time.Second {
				t.Errorf("bd %v ended with %d after %s", args, code, took)
			}
			lines := strings.Split(talk, "\n")
			if len(lines) != 3 || !strings.HasPrefix(lines[0], "Waiting for the tracker, which is locked by process ") ||
				!strings.Contains(lines[0], `("bd import", since `) ||
				!strings.HasPrefix(lines[1], "Error: the tracker was locked for "+limit.String()) ||
				!strings.Contains(lines[1], "--lock-timeout") {
				t.Errorf("bd %v prints %q", args, talk)
			}
		}
		if err := lock.Unlock(); err != nil {
			t.Fatal(err)
		}
		if code, _, talk := invoke(t, dir, "create", "one more"); code != 0 || talk != "" {
			t.Errorf("after the release: exit %d, %s", code, talk)
		}
	})
}
