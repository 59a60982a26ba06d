package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

var kills = flag.Int("kills", 60, "writes that are killed at a random time")

func TestAKilledWriteLeavesTheOldFileOrTheNewOne(t *testing.T) {
	p := newPlace(t)
	id := strings.TrimSpace(p.must("ann", "q", "counter"))
	begin := time.Now()
	p.must("ann", "update", id, "--priority", "3")
	usual := time.Since(begin)
	var acknowledged, lost, silent, torn int
	reported, kept := 0, 0 // the last acknowledged number, and the number in the file
	for n := 1; n <= *kills; n++ {
		answered := p.killed(id, n, time.Duration(rand.Int64N(int64(2*usual))))
		if answered {
			reported = n
			acknowledged++
		}
		kept = p.number(id)
		switch {
		case kept < reported || kept > n:
			t.Fatalf("after write %d the file has number %d, but %d was acknowledged", n, kept, reported)
		case kept == n && !answered:
			silent++
		case kept < n:
			lost++
		}
		if _, err := os.Stat(filepath.Join(p.dir, ".beads", "issues.jsonl.tmp")); err == nil {
			torn++ // killed between the first byte of the new file and its new name
		}
	}
	t.Logf(
		"%d writes killed at random times: %d were acknowledged and kept, %d were not written, %d were written and not acknowledged; "+
			"%d left a temporary file",
		*kills, acknowledged, lost, silent, torn)
	p.must("ann", "update", id, "--notes", "done") // the lock of a killed process is released
	if left, err := filepath.Glob(filepath.Join(p.dir, ".beads", "*.tmp")); err != nil || len(left) > 0 {
		t.Errorf("temporary files %v, %v; want none", left, err)
	}
}

// killed starts a write, kills it after some time, and reports whether it was acknowledged before that.
func (p *place) killed(id string, n int, after time.Duration) bool {
	p.t.Helper()
	var out bytes.Buffer
	cmd := p.command("ann", "update", id, "--notes", fmt.Sprint(n), "--json")
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	kill := time.AfterFunc(after, func() {
		_ = cmd.Process.Signal(syscall.SIGKILL) // it may have exited
	})
	err := cmd.Wait()
	kill.Stop()
	var answer []struct{ Notes string }
	return err == nil || json.Unmarshal(out.Bytes(), &answer) == nil && len(answer) == 1
}

// number returns the number in the notes of an issue, or 0.
func (p *place) number(id string) (n int) {
	p.t.Helper()
	if raw, ok := p.lines()[id]["notes"]; ok {
		if _, err := fmt.Sscan(raw.(string), &n); err != nil {
			p.t.Fatal(err)
		}
	}
	return n
}
