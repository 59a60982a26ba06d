package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// machine is a folder that stands for a machine with few programs.
type machine struct {
	t    *testing.T
	root string
}

// newMachine returns a machine whose user has this id. It has apt-get, which records its arguments and, if it works,
// installs empty programs.
func newMachine(t *testing.T, id string, aptWorks bool) *machine {
	t.Helper()
	m := &machine{t, t.TempDir()}
	for _, tool := range []string{"sh", "sed", "mkdir", "touch", "chmod", "cp", "cat"} {
		path, err := exec.LookPath(tool)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(m.root, "bin"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(m.root, "bin", tool)); err != nil {
			t.Fatal(err)
		}
	}
	m.program("true", "")
	m.program("id", "echo "+id)
	apt := `echo "$DEBIAN_FRONTEND $RUNLEVEL $*" >>"$ROOT/calls"; cp "$ROOT/etc/postgresql-common/createcluster.conf" "$ROOT/seen" 2>/dev/null` + "\n"
	if aptWorks {
		apt += `for name in "$@"; do case $name in
			exim4-daemon-light) name=exim4 ;; postgresql) name=initdb ;; gcc) name=cc ;; -*|install|update) continue ;; esac
			cp "$ROOT/bin/true" "$ROOT/bin/$name"; done` + "\n"
	} else {
		apt += "exit 100\n"
	}
	m.program("apt-get", apt)
	return m
}

func (m *machine) program(name, script string) {
	m.t.Helper()
	if err := os.WriteFile(filepath.Join(m.root, "bin", name), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		m.t.Fatal(err)
	}
}

// check looks for programs and returns what was printed.
func (m *machine) check(names ...string) (printed string, err error) {
	script, absErr := filepath.Abs("../../.ci/programs")
	if absErr != nil {
		m.t.Fatal(absErr)
	}
	cmd := exec.Command(script, names...)
	cmd.Env = []string{"PATH=" + filepath.Join(m.root, "bin"), "ROOT=" + m.root}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (m *machine) calls() []string {
	raw, err := os.ReadFile(filepath.Join(m.root, "calls"))
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSpace(string(raw)), "\n")
}

func (m *machine) read(name string) string {
	raw, err := os.ReadFile(filepath.Join(m.root, name))
	if err != nil {
		m.t.Fatal(err)
	}
	return string(raw)
}

func needed() []string {
	return []string{"go", "git", "compiler", "node", "chromium", "ngircd", "exim", "postgres", "caddy", "nginx", "python3",
		"openssl", "curl"}
}

func TestAllMissingProgramsAreNamedAtOnceWithTheCommandThatInstallsThem(t *testing.T) {
	m := newMachine(t, "1000", true)
	m.program("curl", "")
	printed, err := m.check(needed()...)
	if err == nil || len(m.calls()) > 0 {
		t.Errorf("%v, calls %q", err, m.calls())
	}
	for _, want := range []string{
		"Go 1.26", "git", "a C compiler", "Node 20.10", "Chromium", "ngircd", "Exim", "PostgreSQL", "caddy", "nginx",
		"python3", "openssl",
		".ci/programs go git compiler node chromium ngircd exim postgres caddy nginx python3 openssl\n",
		"git gcc libc6-dev chromium fonts-dejavu-core ngircd exim4-daemon-light postgresql caddy nginx python3 openssl,",
	} {
		if !strings.Contains(printed, want) {
			t.Errorf("%q is missing in: %s", want, printed)
		}
	}
	if strings.Contains(printed, "curl") {
		t.Errorf("curl is there, printed %s", printed)
	}
}

func TestRootInstallsAllMissingProgramsInOneCallWithoutStartingServers(t *testing.T) {
	m := newMachine(t, "0", true)
	m.program("go", "echo cc")
	m.program("npm", "")
	m.program("node", "")
	printed, err := m.check(needed()...)
	if err != nil {
		t.Fatalf("%v: %s", err, printed)
	}
	calls := m.calls()
	if len(calls) != 2 || !strings.HasSuffix(calls[0], "update -q") {
		t.Fatalf("apt-get was called %d times: %q", len(calls), calls)
	}
	const want = "noninteractive 1 install -yq --no-install-recommends --no-remove " +
		"git gcc libc6-dev chromium fonts-dejavu-core ngircd exim4-daemon-light postgresql caddy nginx python3 openssl curl"
	if calls[1] != want {
		t.Errorf("called %q, want %q", calls[1], want)
	}
	if seen := m.read("seen"); seen != "create_main_cluster = false\n" {
		t.Errorf("the package of PostgreSQL finds the configuration %q", seen)
	}
	if printed, err := m.check(needed()...); err != nil || printed != "" || len(m.calls()) != 2 {
		t.Errorf("the second check: %v, %q, calls %q", err, printed, m.calls())
	}
}

// The shell only saves time, so a machine that cannot get it does without.
func TestTheHeadlessShellIsInstalledWhereItCanBe(t *testing.T) {
	const debian = "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nVERSION_ID=\"12\"\nID=debian\n"
	for name, c := range map[string]struct {
		user, system string
		installs     bool
	}{
		"root of a Debian":       {"0", debian, true},
		"a user of a Debian":     {"1000", debian, false},
		"root of an old one":     {"0", strings.ReplaceAll(debian, "12", "11"), false},
		"root of an Ubuntu":      {"0", "VERSION_ID=\"24.04\"\nID=ubuntu\nID_LIKE=debian\n", false},
		"root of another system": {"0", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, c.user, true)
			if err := os.MkdirAll(filepath.Join(m.root, "etc"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(m.root, "etc/os-release"), []byte(c.system), 0o600); err != nil {
				t.Fatal(err)
			}
			printed, err := m.check("headless-shell")
			if err != nil {
				t.Fatalf("%v: %s", err, printed)
			}
			calls := m.calls()
			got := len(calls) == 2 && strings.HasSuffix(calls[1], "--no-remove chromium-headless-shell")
			if got != c.installs {
				t.Errorf("installs it: %t, want %t; calls %q", got, c.installs, calls)
			}
		})
	}
}

func TestAnExistingConfigurationOfClustersKeepsItsOtherSettings(t *testing.T) {
	m := newMachine(t, "0", true)
	if err := os.MkdirAll(filepath.Join(m.root, "etc/postgresql-common"), 0o700); err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(m.root, "etc/postgresql-common/createcluster.conf")
	if err := os.WriteFile(conf, []byte("#create_main_cluster = true\nssl = on\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if printed, err := m.check("postgres"); err != nil {
		t.Fatalf("%v: %s", err, printed)
	}
	if got := m.read("etc/postgresql-common/createcluster.conf"); got != "ssl = on\ncreate_main_cluster = false\n" {
		t.Errorf("the configuration is %q", got)
	}
}

func TestWhatAptGetCouldNotInstallIsNamed(t *testing.T) {
	m := newMachine(t, "0", false)
	printed, err := m.check("ngircd", "exim")
	if err == nil || !strings.Contains(printed, "the IRC server ngircd") ||
		!strings.Contains(printed, "the mail server Exim") {
		t.Errorf("%v, printed %s", err, printed)
	}
}

func TestAnOldNodeIsMissing(t *testing.T) {
	m := newMachine(t, "0", true)
	m.program("npm", "")
	m.program("node", "exit 1") // the version is too low
	printed, err := m.check("node")
	if err == nil || !strings.Contains(printed, "Node 20.10 or later") || len(m.calls()) > 0 {
		t.Errorf("%v, printed %s, calls %q", err, printed, m.calls())
	}
}
