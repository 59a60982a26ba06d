package exec_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/agent/exec"
)

func TestTheExitStatusOfACommandClassifiesItsFailure(t *testing.T) {
	for _, c := range []struct {
		script string
		o      exec.Options
		class  mailroom.Class
		after  time.Duration
		error  string
	}{
		{"exit 78", exec.Options{}, mailroom.ClassPermanent, 0, "the command ended with exit status 78"},
		{"exit 75", exec.Options{}, mailroom.ClassUnavailable, 0, "the command ended with exit status 75"},
		{"echo busy >&2; echo 'Retry-After: 30' >&2; exit 75", exec.Options{}, mailroom.ClassUnavailable, 30 * time.Second,
			"the command ended with exit status 75: busy"},
		{"echo 'retry-after: 7' >&2; exit 1", exec.Options{}, mailroom.ClassTransient, 7 * time.Second, "the command ended with exit status 1"},
		{"echo 'Retry-After: 30' >&2; echo sorry >&2; exit 1", exec.Options{}, mailroom.ClassTransient, 0,
			"the command ended with exit status 1: Retry-After: 30\nsorry"},
		{"echo 'Retry-After: 999999999' >&2; exit 1", exec.Options{}, mailroom.ClassTransient, 24 * time.Hour,
			"the command ended with exit status 1"},
		{"exit 78", exec.Options{PermanentExits: []int{3}, UnavailableExits: []int{}}, mailroom.ClassTransient, 0,
			"the command ended with exit status 78"},
		{"exit 3", exec.Options{PermanentExits: []int{3, 4}}, mailroom.ClassPermanent, 0, "the command ended with exit status 3"},
	} {
		s := newSession(1, "go")
		f := mailroom.AsFailure(command(t, c.script, c.o).Run(t.Context(), s))
		if f.Class != c.class || f.RetryAfter != c.after || f.Err.Error() != c.error {
			t.Errorf("%s: %s, retry after %s, %q; want %s, %s, %q", c.script, f.Class, f.RetryAfter, f.Err, c.class,
				c.after, c.error)
		}
	}
}

func TestACommandKnowsWhereItsRunComesFrom(t *testing.T) {
	const script = `echo "$MAILROOM_RUN $MAILROOM_THREAD $MAILROOM_SENDER $MAILROOM_VIA $MAILROOM_MODE $MAILROOM_PRIORITY ${MAILROOM_OPTIONS-none}"`
	for options, shown := range map[string]string{"": "none", `{"model":"small","n":1}`: `{"model":"small","n":1}`} {
		s := newSession(1, "go")
		s.run.Origin, s.run.Mode, s.run.Priority = mailroom.Origin{Via: "channel:tg", Sender: "ann"}, mailroom.ModeQueue, 5
		if options != "" {
			s.run.Options = json.RawMessage(options)
		}
		if err := command(t, script, exec.Options{}).Run(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if want := "run-1 a thread ann channel:tg queue 5 " + shown + "\n"; len(s.messages) != 1 || s.messages[0] != want {
			t.Errorf("the command has %q, want %q", s.messages, want)
		}
	}
	s := newSession(1, "go")
	s.run.Origin.Sender = strings.Repeat("ü", 1<<20)
	if err := command(t, `printf %s "$MAILROOM_SENDER" | wc -c | tr -d ' '`, exec.Options{}).Run(t.Context(),
		s); err != nil || s.messages[0] != "4096\n" {
		t.Errorf("a sender of 2 MiB: %q, %v", s.messages, err)
	}
}

func TestOptionsThatAnAgentDoesNotTakeFailTheRun(t *testing.T) {
	s := newSession(1, "go")
	s.run.Options = json.RawMessage(`{"temperature":1}`)
	for takes, want := range map[string]string{
		"":      `the command takes no options, but got "temperature"; leave options out, or allow it by options in the configuration of the agent`,
		"model": `the command does not take the option "temperature"; use model`,
	} {
		list := []string{}
		if takes != "" {
			list = append(list, takes)
		}
		f := mailroom.AsFailure(command(t, "echo never", exec.Options{TakesOptions: list}).Run(t.Context(), s))
		if f.Class != mailroom.ClassPermanent || f.Err.Error() != want {
			t.Errorf("takes %q: %s %q, want permanent %q", takes, f.Class, f.Err, want)
		}
	}
	for options, refused := range map[string]bool{"": false, "null": false, "{}": false, "[1]": true, `"x"`: true} {
		if err := exec.CheckOptions("a", []string{}, json.RawMessage(options)); (err != nil) != refused {
			t.Errorf("options %q: %v", options, err)
		}
	}
}
