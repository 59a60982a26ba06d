package main

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom/internal/machinetest"
)

var seedFlag = flag.Uint64("seed", 0, "play a round with this seed again")

// servers has the server binaries of all tests, which are built once.
var servers struct {
	dir   string
	once  sync.Once
	built error
}

func TestMain(m *testing.M) {
	var err error
	servers.dir, err = os.MkdirTemp("", "mailroom-torture-test-")
	code := 1
	if err == nil {
		code = m.Run()
		err = os.RemoveAll(servers.dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// build builds both servers.
func build(t *testing.T) (plain, tagged string) {
	t.Helper()
	plain, tagged = filepath.Join(servers.dir, "mailroom"), filepath.Join(servers.dir, "mailroom-torture")
	servers.once.Do(func() {
		for binary, tags := range map[string]string{plain: "", tagged: "torture"} {
			if err := machinetest.Build(binary, tags, "../cmd/mailroom"); err != nil {
				servers.built = err
			}
		}
	})
	if servers.built != nil {
		t.Fatal(servers.built)
	}
	return plain, tagged
}

// TestAShortRound runs a few cycles of the torture.
func TestAShortRound(t *testing.T) {
	playRound(t, 7, 1)
}

// TestAShortRoundOfSeveralServers runs a few cycles of the torture of servers that share a database.
func TestAShortRoundOfSeveralServers(t *testing.T) {
	playRound(t, 5, 3)
}

func playRound(t *testing.T, cycles, nodes int) {
	t.Helper()
	plain, tagged := build(t)
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	tt, err := newTorture(plain, tagged, filepath.Join(t.TempDir(), "round"), cycles, seed)
	if err != nil {
		t.Fatal(err)
	}
	tt.nodes, tt.lease = nodes, time.Second
	var out, errs bytes.Buffer
	tt.progress = func(format string, args ...any) { fmt.Fprintf(&out, format, args...) }
	if code := tt.report(t.Context(), &out, &errs, true); code != 0 {
		t.Fatalf("seed %d: exit code %d\n%s%s", seed, code, &out, &errs)
	}
	t.Log(out.String())
	if n := tt.counts.repeats.Load() + tt.counts.sends.Load() + tt.counts.facts.Load() + tt.counts.deltas.Load(); n < 100 {
		t.Errorf("too little was checked:\n%s", &out)
	}
}

// TestOnlyTheTaggedServerCanKillItself checks that the plain binary contains none of the kill
// points.
func TestOnlyTheTaggedServerCanKillItself(t *testing.T) {
	plain, tagged := build(t)
	for binary, want := range map[string]bool{plain: false, tagged: true} {
		raw, err := os.ReadFile(binary)
		if err != nil {
			t.Fatal(err)
		}
		for _, trace := range []string{"MAILROOM_TORTURE", "internal/killpoint", "torture-worker"} {
			if got := bytes.Contains(raw, []byte(trace)); got != want {
				t.Errorf("%s: has %q: %t, want %t", filepath.Base(binary), trace, got, want)
			}
		}
		if bytes.Contains(raw, []byte(nextKind)) {
			t.Errorf("%s: has the kind of entry of the next version", filepath.Base(binary))
		}
	}
}

func TestEveryPointIsPlanned(t *testing.T) {
	seen := map[string]int{}
	for _, p := range plans(100, rand.New(rand.NewPCG(1, 1))) {
		seen[p.kind]++
		if p.kind == atPoint {
			seen[p.doom[:strings.LastIndex(p.doom, " ")]]++
		}
	}
	for _, point := range points() {
		if seen[point.name] == 0 {
			t.Errorf("100 cycles never kill %s", point.name)
		}
	}
	for _, kind := range []string{byChance, atStart, worker, frozen, twoAtOnce} {
		if seen[kind] == 0 {
			t.Errorf("100 cycles never kill %s", kind)
		}
	}
}

func TestEveryFaultOfSeveralServersIsPlanned(t *testing.T) {
	seen := map[string]int{}
	for _, p := range nodePlans(100, 3*time.Second, rand.New(rand.NewPCG(1, 1))) {
		seen[p.kind]++
		seen["also "+p.also]++
	}
	for _, kind := range []string{
		atPoint, oneServer, twoServers, frozenNode, frozenTrip, database, connections, resets, cutOff, noAnswers, noRequests,
		slowLine, noWire,
		"also " + oneServer, "also " + connections, "also " + database,
	} {
		if seen[kind] == 0 {
			t.Errorf("100 cycles never have the fault %s", kind)
		}
	}
}
