package program

// Prompt is what one turn asks of a program.
type Prompt struct {
	Text string
	// Mark identifies this prompt in the conversation that a program keeps. Run is the beginning of the marks of all
	// prompts of the run. Both are empty for a program without a Profile.Connect.
	Mark, Run string
	// Again is set if an earlier attempt of the run gave the session a prompt whose end is unknown.
	Again *Again
}

// Again replaces the text of a prompt, depending on what the program remembers of the prompt before.
type Again struct {
	Last        string // mark of the prompt before
	Interrupted string // text if the program knows it, and has written no message since its last tool call
	Answered    string // text if it has written one: the answer, or what it wrote before it was interrupted
	Absent      string // text if the program does not know it
}

// Dialogue is how a program is spoken to during one turn. It is used by one goroutine at a time.
type Dialogue struct {
	Begin  string // the first input
	Decode func(line []byte) ([]Event, error)
	Stdin  *StdinProtocol // nil: stdin is closed after Begin
	// CanSteer reports whether the program takes a message by Stdin.Steer now. nil: it does so until the turn ends.
	CanSteer func() bool
	// MaxLine is the maximum length of a line, in bytes, after which the program is stopped, because the line may be
	// the answer that the turn waits for. 0: lines beyond [MaxLine] are skipped.
	MaxLine int
	// Stop returns the input that asks the program to end its turn, "" if no turn can be ended now. If Stop is nil, the
	// program is only stopped by signals.
	Stop func() string
}

// Dialogue begins the dialogue of a turn.
func (p *Profile) Dialogue(t Turn, prompt Prompt) Dialogue {
	if p.Connect != nil {
		return p.Connect(t, prompt)
	}
	return Dialogue{Begin: p.Prompt(prompt.Text), Decode: p.Decode, Stdin: p.Stdin}
}
