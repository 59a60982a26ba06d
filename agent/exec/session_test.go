package exec_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"mailroom"
	"mailroom/agent/exec"
)

// session is a Session in memory. Like the engine, it turns streamed text into a message at the
// next step.
type session struct {
	mailroom.Session // nil: commands must not call other methods

	run   mailroom.RunView
	input []mailroom.Message
	log   []mailroom.Entry // what Log returns
	state json.RawMessage

	// Called before the method of that name, which returns its error; may be nil.
	onStream func(all string) error
	onAppend func(mailroom.Step) error

	mu       sync.Mutex // guards the fields below
	said     strings.Builder
	messages []string
	steps    []mailroom.Step
}

func (s *session) Log(context.Context, mailroom.LogQuery) ([]mailroom.Entry, error) {
	return s.log, nil
}

// exited returns the entry about the end of the command, or nil.
func (s *session) exited(t *testing.T) *exec.Exited {
	t.Helper()
	for _, step := range s.steps {
		for _, e := range step.Entries {
			if e.Kind == exec.KindExited {
				x := body[exec.Exited](t, s, exec.KindExited)
				return &x
			}
		}
	}
	return nil
}

func newSession(attempt int, texts ...string) *session {
	s := &session{run: mailroom.RunView{ID: "run-1", Thread: "a thread", Attempt: attempt}}
	for _, text := range texts {
		s.input = append(s.input, mailroom.Message{Text: text, Parts: mailroom.Text(text)})
	}
	return s
}

func (s *session) State() json.RawMessage { return s.state }

func (s *session) Run() mailroom.RunView { return s.run }

func (s *session) Input(context.Context) ([]mailroom.Message, error) { return s.input, nil }

func (s *session) Stream(ctx context.Context, text string) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said.WriteString(text)
	if s.onStream != nil {
		return s.onStream(s.said.String())
	}
	return nil
}

func (s *session) Append(ctx context.Context, step mailroom.Step) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.onAppend != nil {
		if err := s.onAppend(step); err != nil {
			return err
		}
	}
	s.steps = append(s.steps, step)
	if step.Checkpoint != nil {
		s.run.Checkpoint = step.Checkpoint
	}
	if s.said.Len() > 0 && !step.NoProgress {
		s.messages = append(s.messages, s.said.String())
		s.said.Reset()
	}
	return nil
}

// body decodes the only entry of a kind. Any other number of entries fails the test.
func body[T any](t *testing.T, s *session, kind string) T {
	t.Helper()
	var v T
	n := 0
	for _, step := range s.steps {
		for _, e := range step.Entries {
			if e.Kind == kind {
				n++
				if err := json.Unmarshal(e.Body, &v); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if n != 1 {
		t.Fatalf("%d entries of kind %s in %d steps, want one", n, kind, len(s.steps))
	}
	return v
}

// command returns the agent of a script.
func command(t *testing.T, script string, o exec.Options) mailroom.Agent {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	o.Command = []string{"/bin/sh", path}
	return agent(t, o)
}

func agent(t *testing.T, o exec.Options) mailroom.Agent {
	t.Helper()
	a, err := exec.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// stopOn returns a context that is cancelled once the command has written word.
func (s *session) stopOn(t *testing.T, word string, why error) context.Context {
	ctx, cancel := context.WithCancelCause(t.Context())
	t.Cleanup(func() { cancel(nil) })
	s.onStream = func(all string) error {
		if strings.Contains(all, word) {
			cancel(why)
		}
		return nil
	}
	return ctx
}
