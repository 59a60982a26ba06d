// Package program knows command-line agents: how each is started and resumed,
// what the lines that it writes mean, and what its end means for a run. It
// starts nothing and reads nothing: lines come in, and what is to be written
// comes out. To add a program is to add an entry to [All] and a transcript of it
// to testdata.
package program

import (
	"slices"

	"mailroom"
)

// Profile is what is known of one program.
type Profile struct {
	Name    string   // of the profile, and of the agent that is offered where the program is found
	Program string   // looked for in PATH
	Version []string // arguments that ask for its version

	// EnvAllow names the variables that it may see of ours, beside those that
	// every command sees: its keys, its folders, its network.
	EnvAllow []string
	Env      []string // variables that it always has, NAME=VALUE
	Modes    []Mode   // what it may be permitted, the default first

	// Args are the arguments of one turn.
	Args func(Turn) []string
	// PresetSession says that we choose the id of a new session. It is a UUID.
	PresetSession bool
	// Prompt is what it gets on stdin for a request.
	Prompt func(text string) string
	// StdinProtocol is how it is spoken to while it works; nil for a program whose
	// stdin is closed behind the prompt.
	Stdin *StdinProtocol

	// Decode says what one line of its stdout means. A line that it does not
	// know means nothing; an error is a line that is none of its lines.
	Decode func(line []byte) ([]Event, error)

	// What it says, on stderr or as its end, if a session cannot be resumed; if
	// somebody else is at work in the session; if it will never start like
	// this. Parts of a line, in lower case.
	SessionGone, SessionBusy, StartRefused []string

	// CheckEnvironment says why it cannot work here, "" if nothing speaks against it.
	CheckEnvironment func(Environment) string
}

// StdinProtocol are the lines for a program that reads while it works.
type StdinProtocol struct {
	Steer  func(text string) string            // one more message
	Allow  func(q Question) string             // the call may be made
	Deny   func(q Question, why string) string // it may not, and the turn goes on
	Ask    func(q Question) string             // it may not now: the turn is to end
	Refuse func(r Request) string              // nobody here can do that
}

// Turn is what the arguments of a program depend on. Nothing of it ever comes
// from a message.
type Turn struct {
	Session string // of the conversation; "" if the program chooses
	Resume  bool   // the session is there
	Model   string // "" is the program's own choice
	Mode    Mode
	Args    []string // further arguments
}

// Environment is where a program is to work.
type Environment struct {
	Mode   Mode
	Root   bool                             // we are root
	Lookup func(name string) (string, bool) // variables of the program
}

// Mode is what a program is permitted without being asked. It means the same
// for every program.
type Mode string

const (
	ModeAsk  Mode = "ask"  // look at things; a person is asked about everything else
	ModeRead Mode = "read" // look at things; everything else is refused
	ModeEdit Mode = "edit" // change files in its folder too; everything else is refused
	ModeAll  Mode = "all"  // everything, unasked
)

// All are the programs that are known, by name.
func All() []*Profile { return []*Profile{claude(), codex()} }

// Find returns the profile of that name, nil if there is none.
func Find(name string) *Profile {
	for _, p := range All() {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// Has reports whether the program has the mode.
func (p *Profile) Has(m Mode) bool { return slices.Contains(p.Modes, m) }

// network names the variables with which programs reach a network.
func network() []string {
	return []string{
		"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
		"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME",
	}
}

// classOf says what an HTTP status of a model means for a run.
func classOf(status int) mailroom.Class {
	switch {
	case status == 408, status == 429, status >= 500:
		return mailroom.ClassUnavailable
	case status >= 400:
		return mailroom.ClassPermanent
	}
	return mailroom.ClassTransient
}
