package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestATrackerOfAnotherUserAboveIsNotUsed has a tracker in a folder above, as another user can put one into /tmp. Only
// root can make one; for other users the test checks that their own tracker above is used.
func TestATrackerOfAnotherUserAboveIsNotUsed(t *testing.T) {
	p := newPlace(t)
	below := &place{t, filepath.Join(p.dir, "below")}
	check(t, os.Mkdir(below.dir, 0o755))
	below.must("ann", "create", "from below")
	if os.Geteuid() != 0 {
		return
	}
	const stranger = 65_533
	check(t, os.Chown(filepath.Join(p.dir, ".beads"), stranger, -1))
	for _, args := range [][]string{{"list"}, {"create", "to a stranger"}} {
		if _, stderr, err := below.run("ann", args...); err == nil || !strings.Contains(stderr, "belongs to another user") {
			t.Errorf("bd %s: %v: %s", args[0], err, stderr)
		}
	}
	p.must("ann", "list") // in its own folder it is what the user chose
	below.must("ann", "list", "--db", filepath.Join(p.dir, ".beads", "x"))
	check(t, os.Chown(below.dir, stranger, -1))
	below.must("ann", "list") // a project of that user
}
