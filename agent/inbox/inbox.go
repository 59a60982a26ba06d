// Package inbox is the agent of a mailbox that a person's program or another agent reads by tool calls. Each run
// parks at once on an event ticket that describes the run's message. Later runs wait behind the parked run, so the
// message stays at the head of the queue, across any number of reads and restarts, until its reader removes it.
//
// The answer to that ticket is a [Command]: say adds a message to the thread, delegate sends a task
// to another thread, whose result arrives as a message, and pop completes the run. After say and
// delegate the run opens the next ticket in the same transaction, so each command is executed
// exactly once.
//
// A reader with an empty inbox passes its command as the option "inbox" of a new run, which
// executes it and completes.
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
	// Action is the action of the agent's tickets.
	Action = "inbox"
	// Option is the member of a run's options that holds its Command.
	Option = "inbox"
	// KindOutcome is the kind of the entry for the result of a command; its body is an Outcome.
	KindOutcome = "x.inbox"
)

// Command is a request of a reader. Exactly one of Say, Delegate, Pop and Open is set.
type Command struct {
	// Call is a unique id that the reader chooses. It distinguishes equal commands of two readers
	// and identifies the Outcome.
	Call     string      `json:"call,omitempty"`
	Say      string      `json:"say,omitempty"`
	Delegate *Delegation `json:"delegate,omitempty"`
	Pop      bool        `json:"pop,omitempty"`  // only used in an answer
	Open     bool        `json:"open,omitempty"` // only used in options: create the thread
}

// Delegation is a task for another thread, or for a new one of an agent.
type Delegation struct {
	Thread string `json:"thread,omitempty"`
	Agent  string `json:"agent,omitempty"`
	Task   string `json:"task"`
}

// Outcome is the body of an entry of kind KindOutcome. Refused is set if the command failed.
type Outcome struct {
	Call    string   `json:"call,omitempty"`
	Did     string   `json:"did,omitempty"` // say or delegate
	Refused *Refusal `json:"refused,omitempty"`
}

// Refusal is the error of a command.
type Refusal struct {
	Code    mailroom.Code `json:"code"`
	Message string        `json:"message"`
}

// Head is the arguments of a ticket. It describes the message at the head of the inbox. Text is truncated; the
// messages of the run have the whole text.
type Head struct {
	Activity string `json:"activity_id"` // the run
	Kind     string `json:"kind"`
	Sender   string `json:"sender"`
	Text     string `json:"text"`
}

// Kinds of messages.
const (
	FromPerson = "canvas_user"       // a person, or a program acting for one
	FromPeer   = "peer_agent"        // a run of another agent
	FromResult = "delegation_result" // the end of a delegated task
)

// KindOf returns the kind of a message, which it derives from the origin of the message's run.
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

// New returns the agent. A message that is steered into a parked run extends the message of that run. The next pop is
// then refused, because the reader may not have seen the steered message.
func New() mailroom.Agent { return mailroom.AgentFunc(run) }

func run(ctx context.Context, s mailroom.Session) error {
	err := serve(ctx, s)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx) // more specific than the error of the call
	}
	return err
}

// progress is the checkpoint of a run.
type progress struct {
	Done  int  `json:"done"`            // commands that were executed or refused
	Added bool `json:"added,omitempty"` // the run received messages that its reader has not seen
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

// commandIn reads the command in a run's options. It returns false if the run has a message and no command.
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
		err = errors.New("pop is allowed only as an answer to the message at the head")
	}
	if err != nil {
		return c, true, fmt.Errorf("options.%s: %w", Option, err)
	}
	return c, true, nil
}

// IsCommand reports whether a run with these options is a command rather than a message.
func IsCommand(options json.RawMessage) bool {
	_, own, _ := commandIn(options) // an invalid command is not a message either
	return own
}

// parse decodes a command. Plain text, such as a person enters by hand, becomes say unless it is
// itself a JSON command.
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
		return c, errors.New("delegate needs a task")
	case d != nil && (d.Thread == "") == (d.Agent == ""):
		return c, errors.New("delegate needs either a thread or an agent")
	}
	return c, nil
}

func sayCommand(text string) (Command, error) {
	if strings.TrimSpace(text) == "" {
		return Command{}, errors.New(usage)
	}
	return Command{Say: text}, nil
}

const usage = `use plain text, or one of {"say":TEXT}, {"delegate":{"thread":ID,"task":TEXT}} and {"pop":true}`
