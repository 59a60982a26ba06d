package proc

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// init runs the helper programs: some tests execute the test binary again.
func init() {
	switch os.Getenv("PROC_TEST_ROLE") {
	case "isolating":
		runIsolatingParent()
	case "reader":
		runReader()
	case "capless":
		runCapless()
	default:
		return
	}
	os.Exit(0)
}

// forEachKind runs test for each kind. For a kind that this machine does not
// support it checks instead that no child starts with it.
func forEachKind(t *testing.T, test func(t *testing.T, kind Kind)) {
	for _, kind := range []Kind{KindNone, KindLandlock, KindNamespace} {
		t.Run(string(kind), func(t *testing.T) {
			why := Try(t.Context(), kind)
			if why == nil {
				test(t, kind)
				return
			}
			t.Logf("this machine does not support %s: %v", kind, why)
			spec := shell(t, "true", longLimits)
			spec.Isolation = &Isolation{Kind: kind}
			if c, err := Start(spec); err == nil {
				t.Errorf("a child started with %s: %v", kind, c.Kill())
			}
		})
	}
}

func TestProbeFindsTheStrongestKind(t *testing.T) {
	got, err := Probe(t.Context())
	want := KindNone
	for _, kind := range []Kind{KindLandlock, KindNamespace} {
		if Try(t.Context(), kind) == nil {
			want = kind
		}
	}
	if got != want || (err == nil) != (want != KindNone) {
		t.Errorf("found %s, %v; want %s", got, err, want)
	}
}

// runIsolated runs a script and returns its stdout and stderr.
func runIsolated(t *testing.T, script string, i Isolation, env ...string) string {
	t.Helper()
	spec := shell(t, "exec 2>&1\n"+script, Limits{Stderr: 64, Interrupt: time.Minute, Terminate: time.Millisecond})
	spec.Isolation, spec.Env = &i, append(spec.Env, env...)
	var got output
	if exit, err := start(t, spec).Run(t.Context(), "", got.emit); err != nil || !exit.Success() {
		t.Errorf("ended with %v, %v, output %q", exit, err, got.text.String())
	}
	return got.text.String()
}

func TestHiddenFilesCannotBeAccessed(t *testing.T) {
	data := t.TempDir()
	for name, text := range map[string]string{
		"token": "hush", "files/ab/mine": "a picture", "files/ab/theirs": "hush", "work/kept": "kept", "outside": "hush",
		"beside": "seen",
	} {
		path := filepath.Join(data, "data", name)
		if name == "outside" || name == "beside" {
			path = filepath.Join(data, name)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../../token", filepath.Join(data, "data/files/ab/link")); err != nil { // a name that is shown
		t.Fatal(err)
	}
	script := `cd $D/data
for f in token files/ab/link files/ab/theirs ../outside ../beside files/ab/mine work/kept; do
	if text=$(cat $f 2>/dev/null) && [ -n "$text" ]; then echo "$f: $text"; else echo "$f: refused"; fi
done
for f in token files/ab/theirs; do (echo changed >$f) 2>/dev/null && echo "$f: changed"; done
(echo new >token-new) 2>/dev/null && echo "made a file"
(echo new >work/new) 2>/dev/null && echo "worked"
(echo over >files/ab/mine) 2>/dev/null && echo "files/ab/mine: changed"
true
`
	forEachKind(t, func(t *testing.T, kind Kind) {
		dir := filepath.Join(data, "data")
		got := runIsolated(t, script, Isolation{
			Kind: kind, Hide: []string{dir, filepath.Join(data, "outside"), filepath.Join(data, "missing")},
			Show: []string{filepath.Join(dir, "files/ab/mine"), filepath.Join(dir, "files/ab/gone"),
				filepath.Join(dir, "files/ab/link")},
			Keep: []string{filepath.Join(dir, "work")},
		}, "D="+data)
		want := "token: refused\nfiles/ab/link: refused\nfiles/ab/theirs: refused\n../outside: refused\n../beside: seen\nfiles/ab/mine: a picture\nwork/kept: kept\nworked\n"
		if kind == KindNone {
			want = "token: hush\nfiles/ab/link: hush\nfiles/ab/theirs: hush\n../outside: hush\n../beside: seen\nfiles/ab/mine: a picture\nwork/kept: kept\n" +
				"token: changed\nfiles/ab/theirs: changed\nmade a file\nworked\nfiles/ab/mine: changed\n"
			for name, text := range map[string]string{"token": "hush\n", "files/ab/theirs": "hush\n",
				"files/ab/mine": "a picture\n"} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		for name, text := range map[string]string{"token": "hush\n", "files/ab/mine": "a picture\n"} {
			if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != text {
				t.Errorf("%s is %q, %v; want %q", name, b, err, text)
			}
		}
	})
}

// bareOrphanInSession starts an orphan in a session of its own, without the mark.
const bareOrphanInSession = "(env -i setsid sh -c 'exec 3>&-; exec sleep 1000' >/dev/null 2>&1 &)\n"

func TestNoOrphanOutlivesAnIsolatedChild(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind Kind) {
		// The orphan holds a pipe: end of file means that every holder has ended.
		dir := t.TempDir()
		pipe := filepath.Join(dir, "pipe")
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		runIsolated(t, "exec 4>"+pipe+"; echo x >&4; "+strings.Replace(bareOrphanInSession, "exec 3>&-; ", "", 1),
			Isolation{Kind: kind})
		if err := r.SetReadDeadline(time.Now().Add(5 * time.Minute)); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(r); string(b) != "x\n" || err != nil {
			t.Errorf("read %q, %v: the orphan still runs", b, err)
		}
	})
}

func TestNoOrphanOutlivesAParentThatIsKilled(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind Kind) {
		pipe := filepath.Join(t.TempDir(), "pipe")
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
		parent := exec.Command(os.Args[0])
		parent.Env = []string{"PATH=" + os.Getenv("PATH"), "PROC_TEST_ROLE=isolating", "PROC_TEST_KIND=" + string(kind),
			"PROC_TEST_PIPE=" + pipe}
		parent.Stderr = os.Stderr
		if err := parent.Start(); err != nil {
			t.Fatal(err)
		}
		r, err := os.Open(pipe) // blocks until the child opens it
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if _, err := io.ReadFull(r, make([]byte, 2)); err != nil {
			t.Fatal(err)
		}
		if err := parent.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := parent.Wait(); err == nil {
			t.Error("the parent exited by itself")
		}
		if _, err := io.ReadAll(r); err != nil { // until its last holder ends
			t.Errorf("the orphan still runs: %v", err)
		}
	})
}

// runIsolatingParent is a helper program. It starts an isolated child whose orphan
// holds a pipe, and never waits for it.
func runIsolatingParent() {
	_, err := Start(Spec{
		Command: []string{"/bin/sh", "-c", "exec 4>" + os.Getenv("PROC_TEST_PIPE") + "; " + bareOrphanInSession +
			"echo x >&4; sleep 1000"},
		Env:       []string{"PATH=" + os.Getenv("PATH")},
		Isolation: &Isolation{Kind: Kind(os.Getenv("PROC_TEST_KIND"))},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	<-time.After(time.Hour)
}

func TestResourcesAreLimited(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind Kind) {
		got := runIsolated(t, "for l in c n f; do ulimit -S$l; ulimit -H$l; done",
			Isolation{Kind: kind, Resources: Resources{OpenFiles: 123, FileSize: 512 << 4}})
		if want := "0\n0\n123\n123\n16\n16\n"; got != want {
			t.Errorf("limits are %q, want %q", got, want)
		}
	})
}

// A kind that hides nothing must not be chosen for a kernel that accepts it.
func TestAnIsolationThatHidesNothingIsRefused(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "hidden")
	if err := os.WriteFile(file, []byte("hush"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := startShim(&exec.Cmd{Env: []string{}}, Isolation{Kind: KindNone, Hide: []string{dir}}, file)
	if err == nil {
		t.Errorf("a shim that reads the hidden file reports no error: %v", s.wait())
	}
}

func TestAnIsolatedChildReachesNoOtherProcess(t *testing.T) {
	outside := fmt.Sprint(os.Getpid())
	forEachKind(t, func(t *testing.T, kind Kind) {
		version, err := landlockVersion()
		if kind == KindNone || kind == KindLandlock && (err != nil || version < 6) { // before Linux 6.12
			return
		}
		if got := runIsolated(t, "kill -0 $OUTSIDE 2>/dev/null && echo signals; true", Isolation{Kind: kind},
			"OUTSIDE="+outside); got != "" {
			t.Errorf("the child %s a process outside", got)
		}
		if kind != KindNamespace {
			return
		}
		if got := runIsolated(t, "ls -d /proc/$OUTSIDE 2>/dev/null; echo $$", Isolation{Kind: kind},
			"OUTSIDE="+outside); strings.Contains(got, "/proc") || len(strings.TrimSpace(got)) > 2 {
			t.Errorf("the child sees processes outside: %q", got)
		}
	})
}

// A program of root has no capability that reaches other processes, mounts, devices or the kernel, and gains
// none by another program.
func TestAnIsolatedChildOfRootHasLimitedCapabilities(t *testing.T) {
	if os.Geteuid() != 0 {
		return // it gets none
	}
	const module, rawIO, trace, sysAdmin, resource, mknod, perfmon, bpf = 16, 17, 19, 21, 24, 27, 38, 39
	forEachKind(t, func(t *testing.T, kind Kind) {
		if kind == KindNone {
			return
		}
		got := runIsolated(t,
			"while read -r name value; do case $name in CapEff:|CapBnd:|CapAmb:) echo $value;; esac; done </proc/self/status",
			Isolation{Kind: kind})
		sets := strings.Fields(got)
		if len(sets) != 3 {
			t.Fatalf("got the sets %q", got)
		}
		for _, set := range sets {
			bits, err := strconv.ParseUint(set, 16, 64)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range []int{module, rawIO, trace, sysAdmin, resource, mknod, perfmon, bpf} {
				if bits>>c&1 != 0 {
					t.Errorf("capability %d is in %q", c, got)
				}
			}
		}
	})
}

func TestAnIsolatedChildReportsItsExit(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind Kind) {
		for script, want := range map[string]string{"exit 7": "exit status 7", "kill -9 $$": "signal: killed",
			"kill -TERM $$": "signal: terminated"} {
			spec := shell(t, script, longLimits)
			spec.Isolation = &Isolation{Kind: kind}
			exit, err := start(t, spec).Run(t.Context(), "", discard)
			if err != nil || exit.String() != want {
				t.Errorf("%s: ended with %v, %v; want %s", script, exit, err, want)
			}
		}
		spec := Spec{Command: []string{"/nowhere/at/all"}, Isolation: &Isolation{Kind: kind}}
		_, err := Start(spec)
		if want := "fork/exec /nowhere/at/all: no such file or directory"; err == nil || err.Error() != want ||
			!errors.Is(err, fs.ErrNotExist) {
			t.Errorf("error %v, want %s", err, want)
		}
	})
}

// The report of a shim crosses a pipe as JSON. The limit that ended the start must be there afterwards.
func TestALimitThatAShimMetIsKnownToItsParent(t *testing.T) {
	for _, op := range []string{"fork/exec", "make the child's namespace"} {
		line, err := json.Marshal(failureReport(&opError{op, syscall.EAGAIN}))
		if err != nil {
			t.Fatal(err)
		}
		var got report
		if err := json.Unmarshal(line, &got); err != nil {
			t.Fatal(err)
		}
		if err := got.err("/bin/true"); !Exhausted(err) || Exhausted(errors.New(err.Error())) {
			t.Errorf("%s: %v is not known as a limit of the machine", op, err)
		}
	}
}

// A process of the same user may not read one that is not dumpable. Root may read
// any, so as root the test runs both processes as an ordinary user.
func TestAHiddenProcessCannotBeRead(t *testing.T) {
	for _, hidden := range []bool{false, true} {
		script := "exec 2>/dev/null; tr '\\0' '\\n' </proc/$PPID/environ | grep ^HUSH=; true"
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = []string{"PROC_TEST_ROLE=reader", "HUSH=hush", "PROC_TEST_SCRIPT=" + script, "PATH=" + os.Getenv("PATH")}
		if hidden {
			cmd.Env = append(cmd.Env, "PROC_TEST_HIDE=1")
		}
		if os.Geteuid() == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 54321, Gid: 54321}}
		}
		out, err := cmd.CombinedOutput()
		want := "HUSH=hush\n"
		if hidden {
			want = ""
		}
		if err != nil || string(out) != want {
			t.Errorf("hidden %v: a child reads %q, %v; want %q", hidden, out, err, want)
		}
	}
}

// runReader is a helper program. It hides itself if PROC_TEST_HIDE is set, and runs a script as its child.
func runReader() {
	if os.Getenv("PROC_TEST_HIDE") != "" {
		if err := HideSelf(); err != nil {
			fmt.Println(err)
		}
	}
	sh := exec.Command("/bin/sh", "-c", os.Getenv("PROC_TEST_SCRIPT"))
	sh.Env = []string{"PATH=" + os.Getenv("PATH")}
	out, err := sh.CombinedOutput()
	fmt.Print(string(out))
	if err != nil {
		fmt.Println(err)
	}
}
