package proc

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// openInherited opens a file as a supervisor leaves one open: it survives an exec.
func openInherited(t *testing.T) (fd int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte("hush\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Open(path, syscall.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	return fd
}

// readDescriptor is a script that reads a descriptor by dup and by its path.
func readDescriptor(fd int) string {
	return fmt.Sprintf("(cat <&%d) 2>/dev/null || cat /proc/self/fd/%d 2>/dev/null || echo refused", fd, fd)
}

func TestAnIsolatedChildInheritsNoDescriptor(t *testing.T) {
	fd := openInherited(t)
	forEachKind(t, func(t *testing.T, kind Kind) {
		if got := runIsolated(t, readDescriptor(fd), Isolation{Kind: kind}); got != "refused\n" {
			t.Errorf("the child reads %q", got)
		}
	})
}

func TestHiddenDescriptorsAreNotInherited(t *testing.T) {
	for name, hide := range map[string]func() error{
		"all": HideDescriptors, "listed, on an old kernel": func() error { return hideListed("/proc/self/fd") },
	} {
		fd := openInherited(t)
		read := func() string {
			out, err := exec.Command("/bin/sh", "-c", readDescriptor(fd)).Output()
			if err != nil {
				t.Fatal(err)
			}
			return string(out)
		}
		if got := read(); got != "hush\n" {
			t.Fatalf("%s: before, the child reads %q", name, got)
		}
		if err := hide(); err != nil {
			t.Fatal(err)
		}
		if got := read(); got != "refused\n" {
			t.Errorf("%s: the child reads %q", name, got)
		}
		var st syscall.Stat_t
		if err := syscall.Fstat(fd, &st); err != nil {
			t.Errorf("%s: this process lost its descriptor: %v", name, err)
		}
	}
}

func TestAChildHasNoTerminalOfItsParent(t *testing.T) {
	const script = "read -r pid comm state parent group session rest </proc/$$/stat; [ $session = $$ ] && echo own; true"
	forEachKind(t, func(t *testing.T, kind Kind) {
		if got := runIsolated(t, script, Isolation{Kind: kind}); got != "own\n" {
			t.Errorf("the child is in the session of another process: %q", got)
		}
	})
	var got output
	if _, err := start(t, shell(t, script, longLimits)).Run(t.Context(), "", got.emit); err != nil ||
		got.text.String() != "own\n" {
		t.Errorf("without isolation: %q, %v", got.text.String(), err)
	}
}

func TestASecretThatWasReplacedIsHiddenFromTheNextChild(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "token")
	point := func(version string) {
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, version, "token"), []byte("hush\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(link) // the first time there is none
		if err := os.Symlink(filepath.Join(version, "token"), link); err != nil {
			t.Fatal(err)
		}
	}
	for _, version := range []string{"first", "second"} {
		point(version)
		forEachKind(t, func(t *testing.T, kind Kind) {
			if kind == KindNone {
				return
			}
			script := `text=$(cat "$LINK" 2>/dev/null); echo "read $text"`
			got := runIsolated(t, script, Isolation{Kind: kind, Hide: []string{link}}, "LINK="+link)
			if got != "read \n" {
				t.Errorf("%s: %q", version, got)
			}
		})
	}
}

func TestAMissingHiddenPathLeavesItsFolderAccessible(t *testing.T) {
	dir := t.TempDir()
	forEachKind(t, func(t *testing.T, kind Kind) {
		got := runIsolated(t, "echo new >\"$DIR/new\" && echo made",
			Isolation{Kind: kind, Hide: []string{filepath.Join(dir, "missing")}}, "DIR="+dir)
		if got != "made\n" {
			t.Errorf("a program cannot create a file beside a hidden path that does not exist: %q", got)
		}
	})
}

// Containers may have no capabilities, and then none can be dropped. As an ordinary user the test shows only
// that Landlock needs none.
func TestLandlockNeedsNoCapabilities(t *testing.T) {
	if Try(t.Context(), KindLandlock) != nil {
		return // the kernel has none
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{"PROC_TEST_ROLE=capless"}
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "<nil>\n" {
		t.Errorf("without capabilities: %q, %v", out, err)
	}
}

// runCapless is a helper program. It drops all capabilities, as far as it has any, and tries Landlock.
func runCapless() {
	if os.Getenv("PROC_TEST_DROPPED") == "" {
		runtime.LockOSThread() // the bounding set is of a thread, and exec keeps that of this one
		for c := uintptr(0); c <= lastCap && os.Geteuid() == 0; c++ {
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
				break
			}
		}
		// returns only an error
		fmt.Println(syscall.Exec("/proc/self/exe", os.Args, append(os.Environ(), "PROC_TEST_DROPPED=1")))
		return
	}
	err := Try(context.Background(), KindLandlock)
	fmt.Println(err)
}
