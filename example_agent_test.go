package mailroom_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"mailroom"
)

// translator is an agent with a dependency: a dictionary. The same value works on many runs at once, so
// what belongs to one run is in its Session.
type translator struct{ words map[string]string }

// Run reads the messages that started the run. What it streams becomes the reply.
func (t translator) Run(ctx context.Context, s mailroom.Session) error {
	input, err := s.Input(ctx)
	if err != nil {
		return err
	}
	for _, word := range strings.Fields(input[0].Text) {
		if err := s.Stream(ctx, t.words[word]+" "); err != nil {
			return err
		}
	}
	return nil // completes the run
}

// An agent is a type with a method Run. A test of it needs no server, only a Session that has the methods
// which the agent calls.
func ExampleAgent() {
	agent := translator{map[string]string{"guten": "good", "Morgen": "morning"}}
	s := &fakeSession{text: "guten Morgen"}
	err := agent.Run(context.Background(), s)
	fmt.Printf("%q, %v\n", s.said, err)
	// Output: "good morning ", <nil>
}

// A run can lose its process at any point, and then starts again at the top of the agent. The checkpoint of
// the last step says what is done: this agent continues after it.
func ExampleSession() {
	chapters := mailroom.AgentFunc(func(ctx context.Context, s mailroom.Session) error {
		done := 0
		if at := s.Run().Checkpoint; at != nil {
			if err := json.Unmarshal(at, &done); err != nil {
				return err
			}
		}
		for done < 4 {
			done++
			if err := s.Stream(ctx, fmt.Sprintf("Chapter %d. ", done)); err != nil {
				return err
			}
			// The streamed text, the checkpoint and the progress are stored in one transaction.
			step := mailroom.Step{
				Name: "chapter", Checkpoint: json.RawMessage(fmt.Sprint(done)), Progress: float64(done) / 4,
			}
			if err := s.Append(ctx, step); err != nil {
				return err
			}
		}
		return nil
	})

	s := &fakeSession{steps: 2} // the power fails before the third step
	fmt.Println("first attempt:", chapters(context.Background(), s))
	s.steps = 10
	fmt.Println("second attempt:", chapters(context.Background(), s))
	fmt.Println(s.log)
	// Output:
	// first attempt: the power failed
	// second attempt: <nil>
	// [Chapter 1.  Chapter 2.  Chapter 3.  Chapter 4. ]
}

// fakeSession is a Session in memory. It embeds the interface, so it need not define the methods that no example
// calls.
type fakeSession struct {
	mailroom.Session
	text  string // text of the message that started the run
	steps int    // number of steps that Append accepts

	run  mailroom.RunView
	said string   // text that was streamed and not appended
	log  []string // appended messages
}

func (f *fakeSession) Run() mailroom.RunView { return f.run }

func (f *fakeSession) Input(context.Context) ([]mailroom.Message, error) {
	return []mailroom.Message{{Role: mailroom.RoleUser, Text: f.text}}, nil
}

func (f *fakeSession) Stream(_ context.Context, text string) error {
	f.said += text
	return nil
}

func (f *fakeSession) Append(_ context.Context, step mailroom.Step) error {
	said := f.said
	f.said = ""
	if len(f.log) == f.steps {
		return errors.New("the power failed")
	}
	f.log = append(f.log, said)
	f.run.Checkpoint = step.Checkpoint
	return nil
}
