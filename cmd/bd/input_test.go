package main

import (
	"io"
	"strings"
	"testing"
)

// TestACommandThatReadsInputHoldsNobodyUp has commands that read a text from stdin, which
// does not end: others change the tracker in the mean time.
func TestACommandThatReadsInputHoldsNobodyUp(t *testing.T) {
	p := newPlace(t)
	p.must("ann", "create", "the first", "--id", "x-1")
	for _, args := range []string{"update x-1 -d -", "create another -d -", "import"} {
		slow := p.command("ann", strings.Fields(args)...)
		stdin, err := slow.StdinPipe()
		check(t, err)
		check(t, slow.Start())
		// More than a pipe holds: once it is written, the command reads.
		_, err = io.WriteString(stdin, strings.Repeat(" \n", 256<<10))
		check(t, err)
		p.must("bob", "update", "x-1", "--lock-timeout", "5s", "--notes", "while "+args)
		check(t, stdin.Close())
		check(t, slow.Wait())
	}
	if notes := p.lines()["x-1"]["notes"]; notes != "while import" {
		t.Errorf("the notes are %q", notes)
	}
}
