package program

import (
	"fmt"
	"strings"
	"time"

	"mailroom"
)

// Ending is how a process ended that was to take one turn.
type Ending struct {
	End      *End   // its terminal line; nil: there was none
	Resumed  bool   // it was to resume a session
	SawLine  bool   // it wrote a line that was understood
	Code     int    // exit status; -1 if a signal ended it
	Signal   string // "" if none
	Lingered bool   // it was stopped because it went on after its turn had ended
	Stderr   string // the end of it
}

// Verdict is what an ending means. With neither Gone nor a Class the turn was
// taken.
type Verdict struct {
	Gone       bool // the session is not there; nothing was done
	Class      mailroom.Class
	Message    string
	RetryAfter time.Duration
}

// Judge reads the terminal line and the exit together: neither can be believed
// alone. The first case that fits decides.
func (p *Profile) Judge(e Ending) Verdict {
	exit := fmt.Sprintf("exit status %d", e.Code)
	if e.Signal != "" {
		exit = "signal: " + e.Signal
	}
	is := func(class mailroom.Class, format string, args ...any) Verdict {
		return Verdict{Class: class, Message: fmt.Sprintf(format, args...)}
	}
	switch {
	// There is no terminal line.
	case e.End == nil && containsAny(e.Stderr, p.SessionBusy):
		return is(mailroom.ClassUnavailable, "found somebody else at work in the session") // a person, for as long as they like
	case e.End == nil && e.Resumed && !e.SawLine && containsAny(e.Stderr, p.SessionGone):
		return Verdict{Gone: true, Message: "the program does not know the session"}
	case e.End == nil && !e.SawLine && containsAny(e.Stderr, p.StartRefused):
		return is(mailroom.ClassPermanent, "does not start like this")
	case e.End == nil && e.Resumed && !e.SawLine && e.Signal == "" && e.Code != 0:
		return Verdict{Gone: true, Message: "the program ended with " + exit + " before it said a word"}
	case e.End == nil:
		return is(mailroom.ClassTransient, "was interrupted: it ended with %s and did not say that its turn was over", exit)

	// It said that it has failed. The exit adds nothing.
	case e.End.Aborted:
		return is(mailroom.ClassTransient, "was interrupted")
	case !e.End.OK && e.Resumed && containsAny(e.End.Message, p.SessionGone):
		return Verdict{Gone: true, Message: "the program does not know the session"}
	case !e.End.OK:
		return Verdict{Class: e.End.Class, Message: "failed: " + e.End.Message, RetryAfter: e.End.RetryAfter}

	// It said that it is done.
	case e.Lingered, e.Code == 0 && e.Signal == "":
		return Verdict{}
	}
	return is(mailroom.ClassTransient, "said that it was done, but ended with %s", exit)
}

// containsAny reports whether a text holds one of the words, which are in lower case.
func containsAny(text string, words []string) bool {
	text = strings.ToLower(text)
	for _, w := range words {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}
