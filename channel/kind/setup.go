package kind

import (
	"context"

	"mailroom/internal/setting"
)

// Setup describes how a command adds a channel: it collects the answers to the questions, which
// become settings, tests them with a probe, and writes the configuration.
type Setup struct {
	Short   string // says what the command does
	About   string // where to get the values
	Access  string // says who may talk to the bot; "" describes pairing
	Example string // flags of an example
	// Questions are the values that the command needs.
	Questions []Question
	// Probe connects once and returns what it found out, or an error that says what is wrong.
	Probe func(ctx context.Context, at Place) (Found, error)
}

// Question is a value that a flag gives or a person types. The flag of a boolean setting takes no
// value: it changes the default.
type Question struct {
	// Key is the setting that is asked for. For a secret, it is the key of its file: the flag names
	// a file with the secret, and a person types the secret itself.
	Key   string
	Flag  string // name of the flag; "" is the key with dashes
	Usage string // help of the flag
	// Value is set for an answer that is no setting and only used by the probe.
	Value setting.Value
	// Prompt returns the words that ask for a missing value. nil or "" does not ask.
	Prompt func() string
	// Resolve turns the answer into the value of the setting.
	Resolve func(ctx context.Context, answer string) (string, error)

	Secret   string                    // what a secret value is called in errors
	Generate func() string             // makes a secret that is not given
	Check    func(secret string) error // rejects a secret
}

// Ask returns a prompt with fixed words.
func Ask(words string) func() string { return func() string { return words } }

// Place is the channel that is added, and the server that it is for.
type Place struct {
	Channel string
	Agent   string
	URL     string // address of the server
	Approve string // command line that approves a pairing code
	Test    string // command line that sends a test message to a target of alerts
}

// Found is the result of a probe.
type Found struct {
	Account []string // lines that say what the secrets belong to
	Next    []string // lines that say what to do next
	// Undo reverts what the probe changed at the platform, if the channel cannot be written. nil
	// reverts nothing.
	Undo func(ctx context.Context) error
}
