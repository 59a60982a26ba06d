package proc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// living returns the pids in text whose processes run.
func living(t *testing.T, text string) []int {
	t.Helper()
	var live []int
	fields := strings.Fields(text)
	if len(fields) == 0 {
		t.Fatal("the child printed no pids")
	}
	for _, f := range fields {
		pid, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		p, err := readProcess(pid)
		if err == nil && p.alive() {
			live = append(live, pid)
		} else if ignoreGone(err) != nil {
			t.Fatal(err)
		}
	}
	return live
}

// Scripts that leave a grandchild: each line starts one and prints its pid. None of
// them ends by itself or by INT.
const (
	inGroup            = "sleep 1000 & echo $!\n"
	inSession          = "setsid sleep 1000 & echo $!\n"
	orphan             = "(setsid sleep 1000 & echo $!)\n"
	orphanIgnoringTerm = "(trap '' TERM; setsid sleep 1000 & echo $!)\n"
	silentOrphan       = "(setsid sleep 1000 >/dev/null 2>&1 & echo $!)\n"
	bareInGroup        = "env -i sleep 1000 & echo $!\n"
	bareInSession      = "env -i setsid sleep 1000 & echo $!\n"
	bareOrphan         = "(env -i sleep 1000 & echo $!)\n"
	familyInSession    = "setsid sh -c 'echo $$; sleep 1000 & echo $!; wait' &\n"
)

func TestAStopEndsTheWholeTree(t *testing.T) {
	all := inGroup + inSession + orphan + orphanIgnoringTerm + silentOrphan + bareInGroup + bareInSession + bareOrphan + familyInSession
	// The child obeys INT at once. TERM ends the rest without the whole grace
	// period of INT, and KILL the one that ignores TERM.
	limits := Limits{Interrupt: time.Hour, Terminate: 50 * time.Millisecond}
	var got output
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	got.onOutput = func(all string) {
		if strings.Count(all, "\n") == 10 {
			cancel(errStop)
		}
	}
	if _, err := start(t, shell(t, all+"wait", limits)).Run(ctx, "", got.emit); !errors.Is(err, errStop) {
		t.Errorf("error %v, want %v", err, errStop)
	}
	if live := living(t, got.text.String()); live != nil {
		t.Errorf("processes %v still run", live)
	}
}

func TestNothingOfATreeOutlivesTheChild(t *testing.T) {
	limits := Limits{Terminate: 50 * time.Millisecond}
	all := inGroup + inSession + orphan + orphanIgnoringTerm + silentOrphan + bareInGroup + bareOrphan + familyInSession
	var got output
	// The sleep leaves time for the family to print its two pids.
	exit, err := start(t, shell(t, all+"sleep 0.2", limits)).Run(t.Context(), "", got.emit)
	if err != nil || !exit.Success() {
		t.Errorf("ended with %v, %v; want success despite the processes it left", exit, err)
	}
	if live := living(t, got.text.String()); live != nil {
		t.Errorf("processes %v still run", live)
	}
}

// TestATreeWithoutAMarkEnds stops a tree whose scans read only the sessions that may be of the tree: those of
// descendants, and the child's own, whose leader has ended while its other processes ignore INT.
func TestATreeWithoutAMarkEnds(t *testing.T) {
	spec := shell(t, inGroup+bareInGroup+inSession+bareInSession+familyInSession+"wait",
		Limits{Interrupt: time.Hour, Terminate: 50 * time.Millisecond})
	spec.Belongs = nil
	child := start(t, spec)
	if skip := child.tree.skip(); !skip(os.Getpid()) || skip(child.ID().PID) {
		t.Error("a scan reads the process of the test, or not the child")
	}
	var got output
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	got.onOutput = func(all string) {
		if strings.Count(all, "\n") == 6 {
			cancel(errStop)
		}
	}
	if exit, err := child.Run(ctx, "", got.emit); !errors.Is(err, errStop) {
		t.Errorf("ended with %v, %v, want %v", exit, err, errStop)
	}
	if live := living(t, got.text.String()); live != nil {
		t.Errorf("processes %v still run", live)
	}
}

func TestTheLastFilterOfTheOutputMayFinish(t *testing.T) {
	var got output
	exit, err := start(t, shell(t, "(while kill -0 $$ 2>/dev/null; do :; done; echo last) & echo first",
		longLimits)).Run(t.Context(), "", got.emit)
	if err != nil || !exit.Success() || got.text.String() != "first\nlast\n" {
		t.Errorf("output %q, ended with %v, %v", got.text.String(), exit, err)
	}
}

func TestAnUnfoundPipeHolderDoesNotBlockRun(t *testing.T) {
	var got output
	exit, err := start(t, shell(t, "(env -i setsid sh -c 'echo $$; exec sleep 1000' & )", longLimits)).Run(t.Context(),
		"", got.emit)
	if err != nil || !exit.Success() {
		t.Errorf("ended with %v, %v; want success", exit, err)
	}
	for _, pid := range living(t, got.text.String()) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	}
}

// readLines reads n lines from a child before Run is called.
func readLines(t *testing.T, c *Child, n int) string {
	t.Helper()
	var got strings.Builder
	buf := make([]byte, 100)
	for strings.Count(got.String(), "\n") < n {
		k, err := c.stdout.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		got.Write(buf[:k])
	}
	return got.String()
}

// A tree that forks as fast as it can must not outrun KILL, even if its processes
// clear their environment and leave the group and session.
func TestATreeThatForksWhileItIsKilled(t *testing.T) {
	argument := fmt.Sprintf("1000.%d", os.Getpid())
	spec := shell(t, "echo ready; i=0; while [ $i -lt 100 ]; do env -i setsid sleep "+argument+" & i=$((i+1)); done; wait",
		longLimits)
	spec.Urgent = func(error) bool { return true }
	var got output
	ctx := got.cancelOn(t, "ready")
	if _, err := start(t, spec).Run(ctx, "", got.emit); !errors.Is(err, errStop) {
		t.Errorf("error %v, want %v", err, errStop)
	}
	all, err := processes(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
		if ignoreGone(err) != nil {
			t.Fatal(err)
		}
		if p.alive() && strings.Contains(string(line), argument) {
			t.Errorf("process %d survived", p.pid)
			if err := ignoreGone(syscall.Kill(p.pid, syscall.SIGKILL)); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestLeftoversAreKilled(t *testing.T) {
	cases := []struct {
		name string
		id   func(ID) ID
	}{
		{"known by their process and mark", func(id ID) ID { return id }},
		{"known by their mark", func(ID) ID { return ID{} }},
		{"the process ran before a reboot", func(id ID) ID { id.Boot, id.PID = "before", 1; return id }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			old := start(t, shell(t, inGroup+inSession+orphan+"wait", longLimits))
			pids := readLines(t, old, 3)
			n, err := KillLeftovers(t.Context(), c.id(old.ID()), marked(t.Name()))
			if err != nil || n < 4 { // the subshell may still run
				t.Errorf("killed %d, %v; want 4", n, err)
			}
			if live := living(t, pids); live != nil {
				t.Errorf("processes %v still run", live)
			}
			exit, err := old.Run(t.Context(), "", discard)
			if err != nil || exit.Signal != "killed" {
				t.Errorf("the earlier child ended with %v, %v; want it killed", exit, err)
			}
		})
	}
}

func TestLeftoversWithoutAMarkAreFoundByTheirProcess(t *testing.T) {
	old := start(t, shell(t, bareInGroup+bareInSession+"wait", longLimits))
	pids := readLines(t, old, 2)
	n, err := KillLeftovers(t.Context(), old.ID(), nil)
	if err != nil || n != 3 {
		t.Errorf("killed %d, %v; want 3", n, err)
	}
	if live := living(t, pids); live != nil {
		t.Errorf("processes %v still run", live)
	}
	exit, err := old.Run(t.Context(), "", discard)
	if err != nil || exit.Signal != "killed" {
		t.Errorf("the earlier child ended with %v, %v; want it killed", exit, err)
	}
}

func TestAReusedPidIsNotKilled(t *testing.T) {
	cases := []struct {
		name string
		id   func(ID) ID
	}{
		{"an earlier process had the pid", func(id ID) ID { id.Start--; return id }},
		{"a later process had the pid", func(id ID) ID { id.Start++; return id }},
		{"another host", func(id ID) ID { id.Host += "x"; return id }},
		{"another boot", func(id ID) ID { id.Boot += "x"; return id }},
		{"another pid namespace", func(id ID) ID { id.Namespace += "x"; return id }},
		{"nothing is known", func(ID) ID { return ID{} }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			other := start(t, shell(t, "sleep 1000 & cat; kill $!", longLimits))
			n, err := KillLeftovers(t.Context(), c.id(other.ID()), marked("another mark"))
			if err != nil || n != 0 {
				t.Errorf("killed %d, %v; want 0", n, err)
			}
			var got output
			exit, err := other.Run(t.Context(), "alive", got.emit)
			if err != nil || !exit.Success() || got.text.String() != "alive" {
				t.Errorf("output %q, ended with %v, %v; want it alive", got.text.String(), exit, err)
			}
		})
	}
}

func TestKillLeftoversEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errStop)
	c := start(t, shell(t, "exec sleep 1000", longLimits))
	if _, err := KillLeftovers(ctx, c.ID(), marked(t.Name())); !errors.Is(err, errStop) {
		t.Errorf("error %v, want %v", err, errStop)
	}
	if _, err := c.Run(t.Context(), "", discard); err != nil {
		t.Error(err)
	}
}

func TestTheChildDiesWithItsParent(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	parent := exec.Command(os.Args[0])
	parent.Env = []string{"PROC_TEST_ROLE=parent"}
	parent.ExtraFiles = []*os.File{w} // inherited by the child: end of file when both have ended
	parent.Stderr = os.Stderr
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("ready\n"))); err != nil {
		t.Fatalf("the child did not start: %v", err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := parent.Wait(); err == nil {
		t.Error("the parent ended by itself")
	}
	if err := r.SetReadDeadline(time.Now().Add(5 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the child did not die with its parent: %v", err)
	}
}

func TestIDIdentifiesTheProcess(t *testing.T) {
	c := start(t, shell(t, "cat", longLimits))
	id := c.ID()
	p, err := readProcess(id.PID)
	if err != nil {
		t.Fatal(err)
	}
	if p.start != id.Start || p.group != id.Group || id.Group != id.PID {
		t.Errorf("identified as %+v, the system says %+v", id, p)
	}
	if id.Boot == "" || id.Namespace == "" || id.Host == "" {
		t.Errorf("identified as %+v, want boot, namespace and host", id)
	}
	if err := c.Kill(); err != nil {
		t.Fatal(err)
	}
}

// TestTheWorkOfATreeIsMeasured waits until the processor time of a busy grandchild is seen.
func TestTheWorkOfATreeIsMeasured(t *testing.T) {
	c := start(t, shell(t, "(while :; do :; done) & wait", longLimits))
	for c.processorTime() < 3*tick {
		runtime.Gosched()
	}
	if err := c.Kill(); err != nil {
		t.Fatal(err)
	}
}

func TestParseStat(t *testing.T) {
	// A line as the kernel writes it, with a name that imitates further fields.
	const tail = "4194560 109 0 0 0 1 2 3 4 20 0 3 0 8675309 1 2 3"
	got, err := parseStat("42 (a) R 1 (b) S 7 40 39 0 -1 " + tail)
	want := process{pid: 42, parent: 7, group: 40, session: 39, state: 'S', threads: 3, start: 8675309,
		used: 1 + 2 + 3 + 4}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(process{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, bad := range []string{"", "42", "42 (a", "42 (a)", "x (a) S 7 40 39 0 -1 " + tail, "42 (a) S 7 40 39 0 -1"} {
		if p, err := parseStat(bad); err == nil {
			t.Errorf("%q was parsed as %+v, want an error", bad, p)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add("sleep", 42, 7, uint64(8675309))
	f.Add("a) R 1 (b", 1, 0, uint64(0))
	f.Fuzz(func(t *testing.T, name string, pid, parent int, start uint64) {
		line := fmt.Sprintf("%d (%s) S %d 40 39 0 -1 4194560 0 0 0 0 1 2 0 0 20 0 1 0 %d 1", pid, name, parent, start)
		got, err := parseStat(line)
		if err != nil {
			t.Fatal(err)
		}
		if got.pid != pid || got.parent != parent || got.start != start {
			t.Errorf("%q was parsed as %+v", line, got)
		}
	})
}

func TestLookupFindsVariables(t *testing.T) {
	const env = "A=1\x00AB=2\x00B=x=y\x00EMPTY=\x00"
	for name, want := range map[string]string{"A": "1", "AB": "2", "B": "x=y", "EMPTY": ""} {
		if got, ok := lookup(env, name); !ok || got != want {
			t.Errorf("%s is %q, %v; want %q", name, got, ok, want)
		}
	}
	if got, ok := lookup(env, "C"); ok {
		t.Errorf("C is %q, want none", got)
	}
}

// FuzzLookup checks that lookup returns the whole value of the first variable of a
// name, whatever surrounds it.
func FuzzLookup(f *testing.F) {
	f.Add("A", "1", "B=2\x00A=3")
	f.Add("A", "1", "AB=2")
	f.Add("MAILROOM_RUN", "", "XMAILROOM_RUN=x\x00MAILROOM_RUN")
	f.Fuzz(func(t *testing.T, name, value, others string) {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return // not a valid variable
		}
		if got, ok := lookup(name+"="+value+"\x00"+others, name); !ok || got != value {
			t.Errorf("%q is %q, %v; want %q", name, got, ok, value)
		}
		got, ok := lookup(others, name)
		at := strings.Index("\x00"+others, "\x00"+name+"=")
		if ok != (at >= 0) || ok && !strings.HasPrefix(others[at:], name+"="+got) {
			t.Errorf("%q in %q is %q, %v", name, others, got, ok)
		}
	})
}

// FuzzTail checks that tail keeps the last bytes and buffers at most twice as many.
func FuzzTail(f *testing.F) {
	f.Add([]byte("hello world"), uint8(4), uint8(3))
	f.Add([]byte("a"), uint8(0), uint8(0))
	f.Fuzz(func(t *testing.T, all []byte, limit, size uint8) {
		k := tail{max: int(limit)}
		for rest := all; len(rest) > 0; {
			n := min(len(rest), 1+int(size))
			k.add(rest[:n])
			rest = rest[n:]
			if len(k.buf) > 2*k.max {
				t.Fatalf("%d bytes are buffered to keep %d", len(k.buf), k.max)
			}
		}
		if got, want := string(k.bytes()), string(all[max(0, len(all)-int(limit)):]); got != want {
			t.Errorf("the last %d of %q are %q", limit, all, got)
		}
	})
}

func TestATreeIsFrozenOnceNothingCanFork(t *testing.T) {
	shell := func(state byte) process { return process{pid: 10, parent: 1, state: state, threads: 1} }
	child := func(state byte) process { return process{pid: 11, parent: 10, state: state, threads: 1} }
	for _, c := range []struct {
		name string
		all  []process
		want bool
	}{
		{"all stopped", []process{shell('T'), child('t')}, true},
		{"one still runs, perhaps in a fork", []process{shell('R'), child('T')}, false},
		{"one sleeps, and has not seen the signal", []process{shell('S'), child('T')}, false},
		{"one waits in vfork for a child that has stopped", []process{shell('D'), child('T')}, true},
		{"one waits for a disk", []process{shell('T'), child('D')}, false},
		{"one has ended", []process{shell('Z'), child('T')}, true},
	} {
		if got := frozen(c.all); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
