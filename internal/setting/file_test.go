package setting_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"mailroom/internal/setting"
)

// What a person names by mistake must not block a command, or a server at its start.
func TestFilesThatBlockOrNeverEndAreRefused(t *testing.T) {
	dir := t.TempDir()
	pipe, file, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(pipe, link); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "socket")
	l, err := net.Listen("unix", socket) // archtest: a path, not a port
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for name, want := range map[string]string{
		pipe: "is a named pipe; name a regular file", link: "is a named pipe", socket: "is a socket",
		dir: "is a folder", "/dev/zero": "is a device", "/dev/random": "is a device",
		filepath.Join(dir, "none"): "no such file",
	} {
		if _, err := setting.ReadFile(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", name, err, want)
		}
	}
	for name, want := range map[string]string{file: "text", os.DevNull: ""} {
		if got, err := setting.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// A shell gives the output of a command as the descriptor of a pipe.
func TestADescriptorOfTheCallerIsRead(t *testing.T) {
	for _, folder := range []string{"/dev/fd", "/proc/self/fd"} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.WriteString("secret"); err != nil {
			t.Fatal(err)
		}
		w.Close()
		if got, err := setting.ReadFile(fmt.Sprintf("%s/%d", folder, r.Fd())); err != nil || string(got) != "secret" {
			t.Errorf("%s: %q, %v", folder, got, err)
		}
		r.Close()
	}
}
