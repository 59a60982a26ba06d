package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"mailroom"
	"mailroom/internal/reserved"
	"mailroom/internal/setting"
)

// Op is what a command asks a schedule to do.
type Op string

// Operations of commands.
const (
	OpSet     Op = "set" // makes the schedule, or changes it
	OpPause   Op = "pause"
	OpResume  Op = "resume"
	OpTrigger Op = "trigger" // sends the message now
	// OpConfigure makes the schedule what the configuration file says. Without a spec, the file has it no more.
	OpConfigure Op = "configure"
	opEnd       Op = "end" // ends a schedule of a book for good
)

// Command is a message to the thread of a schedule. Only the server sends commands: the [mailroom.Origin] of the run
// has a Via that no token can have, or names the agent of schedules, whose books send commands too.
type Command struct {
	Op     Op     `json:"op"`
	By     string `json:"by"`               // who asks
	Source string `json:"source,omitempty"` // for set, resume and configure; see State
	Spec   *Spec  `json:"spec,omitempty"`   // for set and configure, checked
	Note   string `json:"note,omitempty"`   // for pause
	// Revision is when the file was changed, for configure.
	Revision time.Time `json:"revision,omitzero"`
	Own      *Own      `json:"own,omitempty"` // for set and end, of a schedule of a book
}

// commandPart is the content of a command's message.
type commandPart struct {
	Command Command `json:"schedule"`
}

// Parts returns the content of the message that is the command.
func (c Command) Parts() ([]mailroom.Part, error) {
	raw, err := json.Marshal(commandPart{c})
	return []mailroom.Part{{Type: "data", Data: raw}}, err
}

// ReadCommand returns the command that the input of a run has.
func ReadCommand(input []mailroom.Message) (Command, error) {
	for _, m := range input {
		for _, p := range m.Parts {
			var c commandPart
			if p.Type == "data" && json.Unmarshal(p.Data, &c) == nil && c.Command.Op != "" {
				return c.Command, nil
			}
		}
	}
	return Command{}, errors.New("the message has no command")
}

// Do carries out a command. s is nil if the schedule does not exist yet; Do then returns a new one. why says, for
// people, why nothing was done.
//
// accepted is when the command was submitted. A new schedule begins then, so that one that is carried out late accounts
// for the times in between.
func Do(s *State, id string, c Command, accepted, now time.Time) (_ *State, m Moves, why string) {
	if c.Own != nil && (s == nil || s.Own == nil || s.Own.Made != c.Own.Made) {
		if c.Op == opEnd {
			return s, m, "it has ended"
		}
		s = nil // the number belongs to another schedule now
	}
	if c.Op == OpSet || c.Op == OpConfigure && s == nil && c.Spec != nil {
		if s != nil && s.FromFile() {
			return s, m, FromFileError(id)
		}
		if why := c.prepare(s, accepted); why != "" {
			return s, m, why
		}
	}
	switch {
	case (c.Op == OpSet || c.Op == OpConfigure && c.Spec != nil) && s == nil:
		s = newState(id, c.Source, *c.Spec, accepted)
		s.Own = c.Own
		if c.Op == OpConfigure {
			s.Configured = &configured{Revision: c.Revision}
		}
		return s, s.Advance(now), ""
	case s == nil:
		return nil, m, "there is no such schedule"
	case c.Op == OpConfigure:
		m, why = s.configure(c, accepted, now)
		return s, m, why
	case c.Op == OpSet && !s.Ended:
		s.Configured = nil
		return s, s.set(c.Source, *c.Spec, accepted, now), ""
	case c.Op == opEnd:
		return s, s.Close(now), ""
	case s.Ended:
		return s, m, "it has ended"
	case c.Op == OpPause:
		s.Pause(c.By, c.Note, now)
		return s, m, ""
	case c.Op == OpResume:
		if !s.FromFile() {
			s.Configured = nil // it is kept by who resumes it
		}
		return s, s.resume(c.Source, now), ""
	case c.Op == OpTrigger:
		m, ok := s.trigger(now)
		if !ok {
			why = fmt.Sprintf("%d runs of the schedule are open: wait for one to end, or cancel one", maxOpen)
		}
		return s, m, why
	}
	return s, m, fmt.Sprintf("the operation %q is unknown", c.Op)
}

// prepare checks the spec of a command. why says, for people, what is wrong with it.
func (c *Command) prepare(s *State, accepted time.Time) (why string) {
	if c.Spec == nil {
		return "the command has no times"
	}
	if err := c.Spec.Check(accepted); err != nil {
		return err.Error()
	}
	c.Spec.anchor(s, accepted)
	return ""
}

// FromFileError says, for people, why the schedule of a thread cannot be changed or deleted by requests.
func FromFileError(id string) string {
	_, name := reserved.SchedulePlace(id)
	return fmt.Sprintf("mailroom.toml has it as [schedules.%s]: change or remove it there and restart the server",
		setting.TOMLKey(name))
}

// Read returns the state of the schedule of a thread, nil if the thread has no schedule.
func Read(t *mailroom.Thread) (*State, error) {
	if reserved.IsBook(t.ID) {
		return nil, nil
	}
	return Decode(t.State[reserved.Scheduler])
}

// Decode returns the state that an agent has kept, nil if it has kept none.
func Decode(raw json.RawMessage) (*State, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	s := &State{}
	if err := json.Unmarshal(raw, s); err != nil {
		return nil, fmt.Errorf("decode the state of a schedule: %w", err)
	}
	return s, nil
}
