// Package inbox is the agent of a mailbox that somebody else reads: a person's
// program, or an agent that fetches its mail by tool calls. A run of it parks at
// once on a ticket of kind event that tells of the message and holds the queue,
// so the message stays at the head until its reader is done with it, over any
// number of looks and restarts.
//
// What the reader does is the answer of that ticket, a [Command]: it says
// something, which becomes a message of the thread; it delegates, which sends a
// task to another thread, whose result comes back as a message; or it pops, which
// completes the run. After the first two the run asks again under the next name.
// So each command is spent once, and was done in the transaction that asks again.
//
// A reader with nothing at the head gives its command as the option "inbox" of a
// run of its own, which does it and completes.
package inbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"mailroom"
)

const (
	// Action is what the tickets of the agent ask for.
	Action = "inbox"
	// Option is the member of a run's options that holds its Command.
	Option = "inbox"
	// KindOutcome is the kind of the entry that tells what became of a command; its
	// body is an Outcome.
	KindOutcome = "x.inbox"
)

// Command is what a reader wants. One of Say, Delegate, Pop and Open is given.
type Command struct {
	// Call is made up by the reader, so that the same words of two readers are
	// two commands, and the Outcome of one can be told from others.
	Call     string      `json:"call,omitempty"`
	Say      string      `json:"say,omitempty"`
	Delegate *Delegation `json:"delegate,omitempty"`
	Pop      bool        `json:"pop,omitempty"`  // only as an answer
	Open     bool        `json:"open,omitempty"` // only as an option: there be a thread
}

// Delegation is a task for another thread, or for a new one of an agent.
type Delegation struct {
	Thread string `json:"thread,omitempty"`
	Agent  string `json:"agent,omitempty"`
	Task   string `json:"task"`
}

// Outcome is the body of an entry of kind Done. Refused is why the command was
// not done, nil if it was.
type Outcome struct {
	Call    string   `json:"call,omitempty"`
	Did     string   `json:"did,omitempty"` // say or delegate
	Refused *Refusal `json:"refused,omitempty"`
}

// Refusal is an error of a command, as it is told.
type Refusal struct {
	Code    mailroom.Code `json:"code"`
	Message string        `json:"message"`
}

// Head is the arguments of a ticket: what is at the head of the inbox. Text is
// cut; the messages of the run are all of it.
type Head struct {
	Activity string `json:"activity_id"` // the run
	Kind     string `json:"kind"`
	Sender   string `json:"sender"`
	Text     string `json:"text"`
}

// Kinds of what is read.
const (
	FromPerson = "canvas_user"       // a person, or a program in its name
	FromPeer   = "peer_agent"        // another agent's run
	FromResult = "delegation_result" // the end of what was delegated
)

// KindOf is the kind of a run by how it came to be.
func KindOf(o mailroom.Origin) string {
	switch o.Via {
	case "run":
		return FromPeer
	case "wake":
		return FromResult
	}
	return FromPerson
}

// maxHeadText bounds the text in a ticket, in bytes.
const maxHeadText = 4 << 10

// New makes the agent. What is steered into a run that waits belongs to its
// message, and refuses the next pop: nobody may have read it yet.
func New() mailroom.Agent { return mailroom.AgentFunc(run) }

func run(ctx context.Context, s mailroom.Session) error {
	err := serve(ctx, s)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx) // says more than what it made a call fail with
	}
	return err
}

// progress is the checkpoint.
type progress struct {
	Done  int  `json:"done"`            // commands that were done, or refused
	Added bool `json:"added,omitempty"` // more was said to the run, of which no reader was told
}

func serve(ctx context.Context, s mailroom.Session) error {
	r := &reader{session: s}
	if c := s.Run().Checkpoint; c != nil {
		if err := json.Unmarshal(c, &r.progress); err != nil {
			return permanent(fmt.Errorf("read the checkpoint: %w", err))
		}
	}
	command, own, err := commandIn(s.Run().Options)
	switch {
	case err != nil:
		return permanent(err)
	case own:
		return r.runCommand(ctx, command)
	}
	return r.serveMessage(ctx)
}

func permanent(err error) error { return &mailroom.Failure{Class: mailroom.ClassPermanent, Err: err} }

// commandIn reads the command in a run's options. false: it is a message.
func commandIn(options json.RawMessage) (Command, bool, error) {
	var given map[string]json.RawMessage
	if len(options) == 0 || json.Unmarshal(options, &given) != nil {
		return Command{}, false, nil // options of any other form are not for this agent
	}
	raw, has := given[Option]
	if !has {
		return Command{}, false, nil
	}
	c, err := parse(raw)
	if err == nil && c.Pop {
		err = errors.New("a run of its own has nothing to pop")
	}
	if err != nil {
		return c, true, fmt.Errorf("options.%s: %w", Option, err)
	}
	return c, true, nil
}

// IsCommand reports whether a run with these options is a command, and so no
// message.
func IsCommand(options json.RawMessage) bool {
	_, own, _ := commandIn(options) // a wrong one is none either
	return own
}

// parse reads a command. A plain text, such as a person gives by hand, is said,
// unless it is a command itself.
func parse(raw json.RawMessage) (Command, error) {
	var c Command
	var text string
	if json.Unmarshal(raw, &text) == nil && text != "" {
		if raw = json.RawMessage(text); json.Unmarshal(raw, &c) != nil {
			return sayCommand(text)
		}
		c = Command{}
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return Command{}, errors.New(usage)
	}
	given := 0
	for _, is := range []bool{strings.TrimSpace(c.Say) != "", c.Delegate != nil, c.Pop, c.Open} {
		if is {
			given++
		}
	}
	d := c.Delegate
	switch {
	case given != 1:
		return c, errors.New(usage)
	case d != nil && strings.TrimSpace(d.Task) == "":
		return c, errors.New("a delegation needs a task")
	case d != nil && (d.Thread == "") == (d.Agent == ""):
		return c, errors.New("a delegation needs a thread, or else an agent")
	}
	return c, nil
}

func sayCommand(text string) (Command, error) {
	if strings.TrimSpace(text) == "" {
		return Command{}, errors.New(usage)
	}
	return Command{Say: text}, nil
}

const usage = `give a text to say, or one of {"say":TEXT}, {"delegate":{"thread":ID,"task":TEXT}} and {"pop":true}`
