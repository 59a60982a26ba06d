package node

import (
	"log/slog"
	"os/exec"
	"syscall"
	"testing"

	"mailroom/app/config"
	"mailroom/app/datadir"
)

// A killed server may leave processes behind that carry the mark of its folder. The next server of the folder kills
// them; the first one has made the mark and looks for none.
func TestTheNextServerOfAFolderKillsWhatIsLeft(t *testing.T) {
	held, err := datadir.Dir(t.TempDir()).Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := held.Release(); err != nil {
			t.Error(err)
		}
	}()
	log := slog.New(slog.DiscardHandler)
	var first, next config.Config
	if err := becomeServer(t.Context(), held, &first, log); err != nil {
		t.Fatal(err)
	}
	left := exec.CommandContext(t.Context(), "sleep", "1000")
	left.Env = append(left.Environ(), "MAILROOM_MARK="+first.Mark)
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	if err := becomeServer(t.Context(), held, &next, log); err != nil {
		t.Fatal(err)
	}
	if next.Mark != first.Mark || first.Mark == "" {
		t.Errorf("the servers have the marks %q and %q", first.Mark, next.Mark)
	}
	if err := left.Process.Signal(syscall.SIGTERM); err != nil { // ends it only if it was not killed before
		t.Fatal(err)
	}
	err = left.Wait()
	if status, ok := left.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Errorf("what the first server left ended with %v, want a kill", err)
	}
}
