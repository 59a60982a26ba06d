package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// installation is a folder with a release of two programs that say their name, and a folder to install them to.
type installation struct{ release, to, archive string }

func newInstallation(t *testing.T) installation {
	t.Helper()
	i := installation{release: t.TempDir(), to: filepath.Join(t.TempDir(), "a folder")}
	name := "mailroom_1.2.3_" + runtime.GOOS + "_" + runtime.GOARCH
	i.archive = filepath.Join(i.release, name+".tar.gz")
	f, err := os.Create(i.archive)
	if err != nil {
		t.Fatal(err)
	}
	err = compress(f, func(w io.Writer) error {
		return writeTar(w, time.Unix(0, 0), []entry{
			{name: name + "/mailroom", data: []byte("#!/bin/sh\necho this is mailroom\n"), run: true},
			{name: name + "/bd", data: []byte("#!/bin/sh\necho this is bd\n"), run: true},
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(i.archive)
	if err != nil {
		t.Fatal(err)
	}
	sums := fmt.Sprintf("%064x  other\n%x  %s.tar.gz\n", 0, sha256.Sum256(text), name)
	if err := os.WriteFile(filepath.Join(i.release, checksums), []byte(sums), 0o644); err != nil {
		t.Fatal(err)
	}
	return i
}

// run runs the script with more settings and returns its output.
func (i installation) run(t *testing.T, settings ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "../../deploy/install.sh")
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "MAILROOM_VERSION=1.2.3",
		"MAILROOM_BASE=file://" + i.release, "INSTALL_DIR=" + i.to}, settings...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestTheScriptInstallsAReleaseOfAFolder(t *testing.T) {
	i := newInstallation(t)
	for range 2 { // also over programs that are there
		out, err := i.run(t)
		if err != nil || !strings.Contains(out, "this is mailroom\nAdd "+i.to+" to PATH") {
			t.Fatalf("%v: %s", err, out)
		}
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(i.to, "bd")).Output()
	if err != nil || string(out) != "this is bd\n" {
		t.Errorf("bd: %q, %v", out, err)
	}
	left, err := os.ReadDir(i.to)
	if err != nil || len(left) != 2 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestTheScriptInstallsNothingThatItCannotCheck(t *testing.T) {
	for name, test := range map[string]struct {
		change   func(t *testing.T, i installation)
		settings []string
		want     string
	}{
		"no address":         {settings: []string{"MAILROOM_BASE="}, want: "set MAILROOM_BASE"},
		"an unknown address": {settings: []string{"MAILROOM_BASE=ftp://example.org"}, want: "begins with https://"},
		"not encrypted":      {settings: []string{"MAILROOM_BASE=http://example.org/mailroom"}, want: "set MAILROOM_PUBKEY"},
		"not this machine":   {settings: []string{"MAILROOM_BASE=http://localhost:1@example.org"}, want: "without it"},
		"this machine":       {settings: []string{"MAILROOM_BASE=http://127.0.0.1:1"}, want: "cannot read"},
		"no such folder":     {settings: []string{"MAILROOM_BASE=file:///no/such/folder"}, want: "cannot read"},
		"no such version":    {settings: []string{"MAILROOM_VERSION=9.9.9"}, want: "cannot read"},
		"not signed": {settings: []string{"MAILROOM_PUBKEY=RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3"},
			want: "minisign is not installed|is not signed"},
		"another archive": {want: "damaged or was changed", change: func(t *testing.T, i installation) {
			t.Helper()
			if err := os.WriteFile(i.archive, []byte("other"), 0o644); err != nil {
				t.Fatal(err)
			}
		}},
		"no checksum": {want: "does not name", change: func(t *testing.T, i installation) {
			t.Helper()
			if err := os.WriteFile(filepath.Join(i.release, checksums), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			i := newInstallation(t)
			if test.change != nil {
				test.change(t, i)
			}
			out, err := i.run(t, test.settings...)
			said := false
			for want := range strings.SplitSeq(test.want, "|") {
				said = said || strings.Contains(out, want)
			}
			if err == nil || !said {
				t.Errorf("got %v: %s, want %q", err, out, test.want)
			}
			if _, err := os.Stat(i.to); err == nil {
				t.Error("it made the folder for the programs")
			}
		})
	}
}

// A download that was cut off runs nothing, wherever it was cut off.
func TestABeginningOfTheScriptRunsNothing(t *testing.T) {
	text, err := os.ReadFile("../../deploy/install.sh")
	if err != nil {
		t.Fatal(err)
	}
	i := newInstallation(t)
	lines := strings.SplitAfter(string(text), "\n")
	for n := range len(lines) - 2 { // the last one, which is empty, and the call
		cmd := exec.CommandContext(t.Context(), "sh", "-s")
		cmd.Stdin = strings.NewReader(strings.Join(lines[:n], ""))
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "MAILROOM_BASE=file://" + i.release, "MAILROOM_VERSION=1.2.3",
			"INSTALL_DIR=" + i.to}
		_ = cmd.Run() // most beginnings are no whole script
		if _, err := os.Stat(i.to); err == nil {
			t.Fatalf("the first %d lines installed something", n)
		}
	}
}

// The script of a release knows its version and its address, which the script in the tree does not.
func TestTheScriptOfAReleaseHasItsVersionAndAddress(t *testing.T) {
	for _, base := range []string{"", "https://example.org/mailroom"} {
		r := release{settings: settings{root: "../..", out: t.TempDir(), version: "1.2.3-rc.4", base: base}}
		if err := r.writeScript(); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(r.out, "install.sh"))
		if err != nil {
			t.Fatal(err)
		}
		want := "\nBASE=\"${MAILROOM_BASE:-" + base + "}\"\nVERSION=\"${MAILROOM_VERSION:-1.2.3-rc.4}\"\n"
		if !strings.Contains(string(text), want) {
			t.Errorf("the script does not have %q", want)
		}
	}
}
