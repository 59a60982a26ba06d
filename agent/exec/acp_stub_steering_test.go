package exec_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// hold works on a turn until it gets a message, or until the test makes a file if the stub takes none. It reports
// whether the turn is over.
func (s *acpStub) hold(prompt acpLine) (over bool) {
	s.chunk("agent_message_chunk", "h", "I hold")
	if !strings.Contains(s.does, "a message") {
		for range 5000 {
			if _, err := os.Stat(filepath.Join(os.Getenv(stubHome), "go on")); err == nil {
				break
			}
			<-time.After(2 * time.Millisecond)
		}
		s.speak("I held")
		return false
	}
	l, ok := s.read()
	switch {
	case !ok:
		os.Exit(1)
	case l.Method != "_session/steering" || l.Params.SessionID != s.session ||
		l.Params.Meta.Steering.IdleBehavior != "promptRequired":
		s.speak(fmt.Sprintf("I got %+v", l))
		return false
	}
	text := l.Params.Prompt[0].Text
	_, request, _ := strings.Cut(text, "]\n\n")
	switch s.does {
	case "takes a message":
		s.answer(l, object{"outcome": "injected"})
		s.record("user", text)
		s.speak("I held, and heard " + request)
	case "refuses a message":
		s.refuse(l, -32603, "not now")
		s.speak("I held")
	case "ends before it gets a message":
		s.speak("I held")
		s.end(prompt, "end_turn")
		s.answer(l, object{"outcome": "promptRequired", "reason": "noRunningTurn"})
		return true
	case "drops a message for a question":
		s.answer(l, object{"outcome": "injected"})
		s.record("call", "!ask touch it.")
		s.permission(prompt, "touch it")
		return true
	case "dies after a message":
		s.answer(l, object{"outcome": "injected"})
		s.record("user", text)
		s.die(s.does)
	}
	return false
}
