package main

import (
	"io"
	"strings"
	"testing"
)

// TestCommandThatReadsInputBlocksNoOthers starts commands that read an endless text from stdin.
// Other commands can change the tracker at the same time.
func TestCommandThatReadsInputBlocksNoOthers(t *testing.T) {
	p := newPlace(t)
	p.must("ann", "create", "the first", "--id", "x-1")
	for _, args := range []string{"update x-1 -d -", "create another -d -", "import"} {
		slow := p.command("ann", strings.Fields(args)...)
		stdin, err := slow.StdinPipe()
		check(t, err)
		check(t, slow.Start())
		// More than a pipe holds: when the write returns, the command is reading.
		_, err = io.WriteString(stdin, strings.Repeat(" \n", 256<<10))
		check(t, err)
		p.must("bob", "update", "x-1", "--lock-timeout", "5s", "--notes", "while "+args)
		check(t, stdin.Close())
		check(t, slow.Wait())
	}
	if notes := p.lines()["x-1"]["notes"]; notes != "while import" {
		t.Errorf("notes %q", notes)
	}
}
