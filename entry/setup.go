package entry

import (
	"fmt"

	"mailroom"
)

// KindSetup is the kind of the entry for a command that has set up the worktree of a thread. The agent writes it, and
// its body is a [Setup].
const KindSetup = "x.exec.setup"

// Setup says what one command of a set-up has done, or that the set-up is skipped.
type Setup struct {
	Number  int    `json:"number"` // from 1 on
	Of      int    `json:"of"`     // number of all commands
	Command string `json:"command"`
	// Again is set if the command was cut before, by a kill or a stop, and has begun again from its start.
	Again      bool   `json:"again,omitempty"`
	Failure    string `json:"failure,omitempty"` // such as "exit status 1"; "" after a success
	DurationMS int64  `json:"duration_ms"`
	Stdout     string `json:"stdout,omitempty"`  // the last 4 KiB
	Stderr     string `json:"stderr,omitempty"`  // the last 4 KiB
	Skipped    string `json:"skipped,omitempty"` // why no command runs
}

// SetupOf returns the body of an entry of [KindSetup], or nil if it has another form.
func SetupOf(e mailroom.Entry) *Setup {
	var s Setup
	if e.Kind != KindSetup || e.Decode(&s) != nil || s.Command == "" && s.Skipped == "" {
		return nil
	}
	return &s
}

// Summary says in one line what has happened.
func (s *Setup) Summary() string {
	if s.Skipped != "" {
		return "set-up skipped: " + s.Skipped
	}
	text := fmt.Sprintf("set-up %d of %d: %s", s.Number, s.Of, s.Command)
	if s.Again {
		text += ", from its start again because it was cut"
	}
	if s.Failure != "" {
		text += "; failed: " + s.Failure
	}
	return text
}
