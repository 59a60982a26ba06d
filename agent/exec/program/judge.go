package program

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"mailroom"
)

// Ending describes the exit of a process that ran one turn.
type Ending struct {
	End      *End      // final line; nil if absent
	Resumed  bool      // the program was started to resume a session
	SawLine  bool      // the program wrote a line that could be decoded
	Worked   bool      // the turn wrote text, thought or called a tool
	Used     bool      // the turn used output of the model, as its count of tokens says
	Notice   string    // the last text that the program wrote in place of the model
	Limit    time.Time // when a limit ends that the program reported apart from its final line
	Code     int       // exit status; -1 for a signal
	Signal   string    // signal that ended the program; "" if none did
	Lingered bool      // the program was stopped because it kept running after its turn
	Stderr   string    // the end of it
	Now      time.Time // current time in the zone of the server
}

// Verdict is the result of a turn. The turn succeeded if Gone is false and Class is empty.
type Verdict struct {
	// Gone is set if the program itself says that the session cannot go on, and the turn did nothing.
	Gone bool
	// Stuck is set if the session cannot go on although the turn did something. The next attempt needs a new session.
	Stuck bool
	// Doubtful is set if a resumed turn did nothing, and its session may be the cause.
	Doubtful   bool
	Fault      Fault // fault of the agent; "" if it has none
	Class      mailroom.Class
	Message    string
	RetryAfter time.Duration
}

// Judge returns the result of a turn from the program's final line and its exit status, because neither is reliable
// alone. The first case that matches decides.
func (p *Profile) Judge(e Ending) Verdict {
	switch {
	case e.End == nil:
		return p.judgeExit(e)
	case e.End.Aborted:
		return Verdict{Class: mailroom.ClassTransient, Message: "was interrupted"}
	case !e.End.OK:
		return p.judgeFailure(e, e.End.Message, e.End.Status)
	case !e.Worked && isFailure(e.Notice), !e.Worked && !e.Used && isFailure(e.End.Text):
		// Some versions report a refusal of the model's API as a success, with the refusal as the reply.
		why := cmp.Or(e.Notice, e.End.Text)
		return p.judgeFailure(e, why, claudeStatus(why))
	case !e.Worked && !e.Used && e.End.Text == "" && e.Notice == "":
		return Verdict{Class: mailroom.ClassTransient,
			Message: "reported success without any work: no text, no call and no tokens", Doubtful: e.Resumed}
	case e.Lingered, e.Code == 0 && e.Signal == "":
		return Verdict{}
	}
	return Verdict{Class: mailroom.ClassTransient, Message: "reported success, but ended with " + e.exit()}
}

func (e Ending) exit() string {
	if e.Signal != "" {
		return "signal: " + e.Signal
	}
	return fmt.Sprintf("exit status %d", e.Code)
}

// judgeExit judges a process without a final line.
func (p *Profile) judgeExit(e Ending) Verdict {
	silent := !e.SawLine
	fault := faultOf(e.Stderr, 0)
	switch {
	case containsAny(e.Stderr, p.SessionBusy):
		// Perhaps a person uses the session, which may last any length of time.
		return Verdict{Class: mailroom.ClassUnavailable, Message: "found its session in use by another process"}
	case silent && e.Resumed && containsAny(e.Stderr, p.SessionGone):
		return Verdict{Gone: true, Message: "the program does not know the session"}
	case silent && containsAny(e.Stderr, p.StartRefused):
		return Verdict{Class: mailroom.ClassPermanent, Message: "rejected its arguments or environment", Fault: FaultProgram}
	case silent && (containsAny(e.Stderr, programWords()) || e.Code == 126 || e.Code == 127):
		return Verdict{Class: mailroom.ClassPermanent, Message: "could not start: something that it needs is missing",
			Fault: FaultProgram}
	case !e.Worked && e.Code != 0 && fault != "":
		return Verdict{Class: mailroom.ClassPermanent, Message: "cannot work for now (" + string(fault) + ")", Fault: fault}
	case !e.Worked && containsAny(e.Stderr, busyMachineWords()):
		return Verdict{Class: mailroom.ClassTransient,
			Message: "did not begin its turn: the machine or its own files were busy"}
	}
	return Verdict{
		Class: mailroom.ClassTransient, Doubtful: e.Resumed && !e.Worked,
		Message: fmt.Sprintf("was interrupted: it ended with %s before the end of its turn", e.exit()),
	}
}

// judgeFailure judges a failure that the program reported.
func (p *Profile) judgeFailure(e Ending, message string, status int) Verdict {
	v := Verdict{Message: "failed: " + message, Class: failureClass(message, status)}
	if e.End.Class != "" { // the program knows more than an HTTP status
		v.Class = e.End.Class
	}
	fault := faultOf(message, status)
	if e.Worked && status == 0 {
		fault = "" // the words may be the model's own
	}
	end := limitEnd(message, e.Now)
	if e.Limit.After(e.Now) && status != 529 && v.Class == mailroom.ClassUnavailable {
		end = e.Limit // e.Limit is exact, while the words may not name the day
	}
	if end.After(e.Now) {
		v.RetryAfter = min(end.Sub(e.Now), maxRetryAfter)
	}
	switch {
	case e.Resumed && containsAny(message, p.SessionGone):
		return Verdict{Gone: true, Message: "the program does not know the session"}
	case v.RetryAfter > 0 && (status == 429 || containsAny(message, limitWords())):
		v.Class = mailroom.ClassUnavailable
	case fault != "":
		v.Fault, v.Class = fault, mailroom.ClassPermanent
	case containsAny(message, stuckWords()), status == 413:
		return stuck(e, v)
	case (status == 400 || status == 422) && e.Resumed && !e.Worked:
		v.Class, v.Doubtful = mailroom.ClassTransient, true
	}
	return v
}

// stuck returns the verdict on a turn whose conversation the model refuses.
func stuck(e Ending, v Verdict) Verdict {
	switch {
	case e.Worked:
		v.Class, v.Stuck = mailroom.ClassTransient, true
	case e.Resumed:
		return Verdict{Gone: true, Message: v.Message}
	default: // the model refuses only the message, not the session
		v.Class = mailroom.ClassPermanent
	}
	return v
}

// isFailure reports whether notice, a text that a program wrote in place of the model, says that a request was
// refused.
func isFailure(notice string) bool {
	return strings.HasPrefix(notice, "API Error") || faultOf(notice, 0) != "" || containsAny(notice, limitWords()) ||
		containsAny(notice, stuckWords())
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
