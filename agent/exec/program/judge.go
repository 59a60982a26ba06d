package program

import (
	"fmt"
	"strings"
	"time"

	"mailroom"
)

// Ending describes the exit of a process that ran one turn.
type Ending struct {
	End      *End   // final line; nil if absent
	Resumed  bool   // it was started to resume a session
	SawLine  bool   // it wrote a line that could be decoded
	Code     int    // exit status; -1 for a signal
	Signal   string // "" if none
	Lingered bool   // it was stopped because it kept running after its turn
	Stderr   string // the end of it
}

// Verdict is the result of a turn. The turn succeeded if Gone is false and Class is empty.
type Verdict struct {
	Gone       bool // the session does not exist; nothing was done
	Class      mailroom.Class
	Message    string
	RetryAfter time.Duration
}

// Judge combines the final line and the exit status, because neither is reliable alone. The first
// matching case decides.
func (p *Profile) Judge(e Ending) Verdict {
	exit := fmt.Sprintf("exit status %d", e.Code)
	if e.Signal != "" {
		exit = "signal: " + e.Signal
	}
	is := func(class mailroom.Class, format string, args ...any) Verdict {
		return Verdict{Class: class, Message: fmt.Sprintf(format, args...)}
	}
	switch {
	// No final line.
	case e.End == nil && containsAny(e.Stderr, p.SessionBusy):
		return is(mailroom.ClassUnavailable, "found its session in use by another process") // perhaps a person, for any length of time
	case e.End == nil && e.Resumed && !e.SawLine && containsAny(e.Stderr, p.SessionGone):
		return Verdict{Gone: true, Message: "the program does not know the session"}
	case e.End == nil && !e.SawLine && containsAny(e.Stderr, p.StartRefused):
		return is(mailroom.ClassPermanent, "rejected its arguments or environment")
	case e.End == nil && e.Resumed && !e.SawLine && e.Signal == "" && e.Code != 0:
		return Verdict{Gone: true, Message: "the program ended with " + exit + " before any output"}
	case e.End == nil:
		return is(mailroom.ClassTransient, "was interrupted: it ended with %s before the end of its turn", exit)

	// It reported a failure.
	case e.End.Aborted:
		return is(mailroom.ClassTransient, "was interrupted")
	case !e.End.OK && e.Resumed && containsAny(e.End.Message, p.SessionGone):
		return Verdict{Gone: true, Message: "the program does not know the session"}
	case !e.End.OK:
		return Verdict{Class: e.End.Class, Message: "failed: " + e.End.Message, RetryAfter: e.End.RetryAfter}

	// It reported success.
	case e.Lingered, e.Code == 0 && e.Signal == "":
		return Verdict{}
	}
	return is(mailroom.ClassTransient, "reported success, but ended with %s", exit)
}

// containsAny reports whether text contains one of words, which are in lower case.
func containsAny(text string, words []string) bool {
	text = strings.ToLower(text)
	for _, w := range words {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}
