package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"aead.dev/minisign"
)

func TestAnArchiveDependsOnItsContentOnly(t *testing.T) {
	at := time.Date(2026, 11, 29, 14, 0, 0, 999, time.FixedZone("", 3600))
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("code"), 0o600); err != nil {
		t.Fatal(err)
	}
	entries := []entry{
		{name: "x/run", file: program, run: true}, {name: "x/a/text", data: []byte("words")},
		{name: "x/data/", owner: 65532, mode: 0o700},
	}
	write := func(entries []entry) []byte {
		var b bytes.Buffer
		if err := compress(&b, func(w io.Writer) error { return writeTar(w, at, entries) }); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	first := write(entries)
	if err := os.Chtimes(program, time.Time{}, at.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(program, 0o777); err != nil {
		t.Fatal(err)
	}
	slices.Reverse(entries)
	if !bytes.Equal(first, write(entries)) {
		t.Error("the order of the entries, or the time or permissions of a file, changed the archive")
	}
	var plain bytes.Buffer
	if err := writeTar(&plain, at, entries); err != nil {
		t.Fatal(err)
	}
	var got []string
	for r := tar.NewReader(&plain); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if !h.ModTime.Equal(at.Truncate(time.Second)) || h.Uname != "" {
			t.Errorf("%s has the time %s and the owner %q", h.Name, h.ModTime, h.Uname)
		}
		got = append(got, fmt.Sprintf("%s %o %d", h.Name, h.Mode, h.Uid))
	}
	want := []string{"x/ 755 0", "x/a/ 755 0", "x/a/text 644 0", "x/data/ 700 65532", "x/run 755 0"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A release with a number that its programs do not say, or without notes for its users, is refused.
func TestAVersionMustBeTheOneOfTheTree(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("internal/version/version.go", "package version\n\nconst Number = \"1.2.3\"\n")
	write("CHANGELOG.md", "# Changelog\n\n## Unreleased\n\n## 1.2.2\n")
	check := func(version string) error { return settings{root: root, version: version}.checkVersion() }
	for _, good := range []string{"1.2.3-rc.1", "1.2.3-beta"} {
		if err := check(good); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{
		"", "1.2.4", "v1.2.3", "1.2.3-", "1.2.3-a..b", "1.2.3-A b", "1.2.3+x", "1.2.3-rc+x", "1.2.3",
	} {
		if check(bad) == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	write("CHANGELOG.md", "# Changelog\n\n## Unreleased\n\n## 1.2.3\n")
	if err := check("1.2.3"); err != nil {
		t.Error(err)
	}
	if number, err := numberOf("../../internal/version/version.go"); err != nil || !strings.Contains(number, ".") {
		t.Errorf("the number of this tree: %q, %v", number, err)
	}
}

func TestAnAddressCannotLeaveItsQuotes(t *testing.T) {
	for _, bad := range []string{
		`https://example.org/"; rm x`, "https://example.org/$(x)", "example.org", "ftp://example.org",
	} {
		if (settings{base: bad}).checkBase() == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	for _, good := range []string{"", "https://example.org/mailroom", "file:///srv/mailroom"} {
		if err := (settings{base: good}).checkBase(); err != nil {
			t.Error(err)
		}
	}
}

func TestOnlyFilesWithLicencesAreNotices(t *testing.T) {
	for name, want := range map[string]bool{
		"LICENSE": true, "LICENSE.md": true, "license.txt": true, "LICENSE-3RD-PARTY.md": true, "COPYING": true,
		"NOTICE": true, "PATENTS": true, "LICENCE": true, "README.md": false, "license.go": false, "noticed.txt": false,
	} {
		if got := isNotice(name); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// The checksums are signed by the key, in the form that minisign reads. Without a key there is no signature.
func TestChecksumsAreSignedIfThereIsAKey(t *testing.T) {
	public, private, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := private.MarshalText() // without a password, whose key takes a second and a gigabyte to derive
	if err != nil {
		t.Fatal(err)
	}
	s := settings{key: string(text), version: "1.2.3"}
	key, err := s.readKey()
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []*minisign.PrivateKey{key, nil} {
		s.out = t.TempDir()
		if err := os.WriteFile(filepath.Join(s.out, "file"), []byte("abc"), 0o644); err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		r := release{settings: s, source: source{commit: "0123"}, log: &log}
		if err := r.sums(k); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(s.out, "checksums.txt"))
		want := "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  file\n"
		if err != nil || string(text) != want {
			t.Errorf("checksums: %q, %v", text, err)
		}
		signature, err := os.ReadFile(filepath.Join(s.out, "checksums.txt.minisig"))
		if k == nil {
			if err == nil || !strings.Contains(log.String(), "is not signed") {
				t.Errorf("without a key: %q, %s", signature, log.String())
			}
			continue
		}
		if err != nil || !minisign.Verify(public, text, signature) {
			t.Errorf("signature %q, %v", signature, err)
		}
		if minisign.Verify(public, append(text, 'x'), signature) {
			t.Error("the signature holds for other checksums too")
		}
		if p := public.String(); !strings.Contains(log.String(), p[strings.LastIndex(p, "\n")+1:]) {
			t.Errorf("the public key is not named: %s", log.String())
		}
	}
	for _, bad := range []settings{{key: "/no/such/file"}, {key: "untrusted comment: x\nRWQ="}} {
		if _, err := bad.readKey(); err == nil {
			t.Errorf("a bad key was accepted: %.20q", bad.key)
		}
	}
}

func TestTheImageHasCertificates(t *testing.T) {
	n := 0
	for rest := certificates(); ; n++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
	}
	if n < 50 {
		t.Errorf("%d certificates", n)
	}
}

// The files for compose and Kubernetes start the image of a release and the one of the Dockerfile.
func TestTheImageStartsAsTheDockerfileSays(t *testing.T) {
	file := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var r release
	image, err := r.imageOf(program{mailroom: file, bd: file})
	if err != nil {
		t.Fatal(err)
	}
	got, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../deploy/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	c := got.Config
	env := slices.DeleteFunc(slices.Clone(c.Env), func(v string) bool { return !strings.HasPrefix(v, "MAILROOM_") })
	for _, line := range []string{
		"USER " + c.User, "ENV " + strings.Join(env, " "), "STOPSIGNAL " + c.StopSignal, "VOLUME " + dataDir,
		fmt.Sprintf("ENTRYPOINT %q", c.Entrypoint), fmt.Sprintf("CMD %q", c.Cmd),
	} {
		if !strings.Contains(string(text), "\n"+line+"\n") {
			t.Errorf("the Dockerfile does not say %s", line)
		}
	}
	if _, ok := c.Volumes[dataDir]; !ok {
		t.Errorf("the volumes are %v", c.Volumes)
	}
	if !slices.ContainsFunc(r.rootOf(program{}), func(e entry) bool { return e.name == "data/" && e.owner == nonroot }) {
		t.Error("the image has no folder for the data")
	}
}

// The scripts of packages know what dpkg and rpm tell them.
func TestTheScriptsOfPackagesRun(t *testing.T) {
	programs, system := t.TempDir(), t.TempDir()
	// systemctl knows patterns for units that run, and none for files of units.
	const systemctl = `case "$1 $*" in (disable*[*]*) echo "disable takes no pattern: $*" >&2; exit 1;; esac`
	for name, text := range map[string]string{"systemctl": systemctl, "cat": "exec /bin/cat"} {
		if err := os.WriteFile(filepath.Join(programs, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		script, word, old string
		want              string
	}{
		{"postinst", "configure", "", "does not run yet"}, {"postinst", "1", "", "does not run yet"},
		{"postinst", "configure", "0.1.0", ""}, {"postinst", "2", "", ""},
		{"prerm", "remove", "", ""}, {"prerm", "upgrade", "0.1.0", ""}, {"prerm", "0", "", ""},
		{"postrm", "remove", "", ""}, {"postrm", "0", "", ""},
	} {
		text, err := os.ReadFile("../../deploy/package/" + test.script)
		if err != nil {
			t.Fatal(err)
		}
		script := strings.ReplaceAll(string(text), "/run/systemd/system", system) // systemd is at work
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", script, test.script, test.word, test.old)
		// No program is found but a systemctl and a cat of this test, so nothing of this machine is restarted.
		cmd.Env = []string{"PATH=" + programs}
		out, err := cmd.CombinedOutput()
		if err != nil || test.want == "" && len(out) > 0 || !strings.Contains(string(out), test.want) {
			t.Errorf("%s %s %s: %q, %v", test.script, test.word, test.old, out, err)
		}
	}
}
