// Package program describes command-line agents: how to start and resume each one, how to decode
// its output, and what its exit means for a run. The package performs no I/O. To support another
// program, add an entry to [All] and a transcript to testdata.
package program

import (
	"slices"

	"mailroom"
)

// Profile describes one program.
type Profile struct {
	Name    string   // of the profile, and of the agent that a server offers if the program is installed
	Program string   // executable, looked up in PATH
	Version []string // arguments that print the version

	// EnvAllow names the server's variables that the program may see, in addition to the variables
	// that every command sees: keys, folders and network settings.
	EnvAllow []string
	Env      []string // variables that are always set, NAME=VALUE
	Modes    []Mode   // supported modes, the default first

	// Args returns the arguments of one turn.
	Args func(Turn) []string
	// PresetSession is set if the caller chooses the id of a new session, which is a UUID.
	PresetSession bool
	// Prompt returns the text for the program's stdin that makes up a request.
	Prompt func(text string) string
	// Stdin formats further input; nil for a program whose stdin is closed after the prompt.
	Stdin *StdinProtocol

	// Connect begins the dialogue of one turn with a program whose protocol has requests in both directions. If it is
	// set, Prompt, Stdin and Decode are not used. Hello is input that makes the program say its version, instead of
	// the arguments in Version, and HelloAnswer reads it from a line; ok is false for other lines.
	Connect     func(Turn, Prompt) Dialogue
	Hello       string
	HelloAnswer func(line []byte) (version string, ok bool)

	// Decode returns the events of one line of stdout. An unknown line has none; a line that is not
	// in the program's format is an error.
	Decode func(line []byte) ([]Event, error)
	// ReportsCost is set if the program says what a turn costs, and not only its tokens.
	ReportsCost bool

	// Texts on stderr or in the final line, in lower case, that say: the session cannot be resumed; the session is in
	// use; the program rejects its arguments or environment.
	SessionGone, SessionBusy, StartRefused []string

	// CheckEnvironment returns why the program cannot work in an environment, or "" if no reason is known.
	CheckEnvironment func(Environment) string
}

// StdinProtocol formats input for a program that reads stdin while it works.
type StdinProtocol struct {
	Steer  func(text string) string            // formats another message; nil: the program takes none in a turn
	Allow  func(q Question) string             // permit the call
	Deny   func(q Question, why string) string // deny the call and continue the turn
	Ask    func(q Question) string             // deny the call for now and end the turn
	Refuse func(r Request) string              // the request is not supported
}

// Turn holds what the arguments of a program depend on. None of it comes from a message.
type Turn struct {
	Session string // id; "" if the program chooses
	Resume  bool   // the session exists
	Model   string // name of the model; "" is the program's default
	Mode    Mode
	Args    []string // further arguments
	Dir     string   // working directory, an absolute path
}

// Environment describes where a program runs.
type Environment struct {
	Mode   Mode
	Root   bool                             // the process runs as root
	Lookup func(name string) (string, bool) // the program's environment variables
}

// Mode is what a program may do without asking. A mode has the same meaning for every program.
type Mode string

const (
	ModeAsk  Mode = "ask"  // read; ask a person about everything else
	ModeRead Mode = "read" // read; everything else is refused
	ModeEdit Mode = "edit" // read, and change files in the working directory; everything else is refused
	ModeAll  Mode = "all"  // everything
)

// All returns the profiles of all supported programs, sorted by name.
func All() []*Profile { return []*Profile{claude(), codex()} }

// Find returns the profile with this name, or nil.
func Find(name string) *Profile {
	for _, p := range All() {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// Has reports whether the program supports the mode.
func (p *Profile) Has(m Mode) bool { return slices.Contains(p.Modes, m) }

// network returns the names of environment variables that affect network access.
func network() []string {
	return []string{
		"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
		"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME",
		"XDG_STATE_HOME",
	}
}

// classOf returns the failure class for an HTTP status of a model API.
func classOf(status int) mailroom.Class {
	switch {
	case status == 408, status == 429, status >= 500:
		return mailroom.ClassUnavailable
	case status >= 400:
		return mailroom.ClassPermanent
	}
	return mailroom.ClassTransient
}
