package entry

// Channels of a Delta. Only the text is part of a message, and is stored; readers get the others while they happen, or
// not at all.
const (
	ChannelText     = "text"     // text of the message itself
	ChannelThinking = "thinking" // what the agent thinks before it writes the message
	ChannelWaits    = "waits"    // what the silent agent waits for, whole, until anything else of its run comes
	ChannelTool     = "tool"     // the arguments of the tool call Call, as a model writes them
)

// Delta is a piece of live text of the message that a run is writing; it is not durable. Offset is
// the position in the message's text of this channel, and of this call, in bytes, so a repeated delta is harmless.
type Delta struct {
	Run     string `json:"run"`
	Attempt int    `json:"attempt"`
	Message string `json:"message"`
	Offset  int    `json:"offset"`
	Channel string `json:"channel"`        // "" is ChannelText
	Call    string `json:"call,omitempty"` // with ChannelTool: the call of the tool.started entry that follows
	Name    string `json:"name,omitempty"` // with ChannelTool: name of the tool
	Text    string `json:"text"`
}

// IsText reports whether d is of the text of its message, which is stored.
func (d *Delta) IsText() bool { return d.Channel == ChannelText || d.Channel == "" }
