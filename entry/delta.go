package entry

// Channels of a Delta.
const (
	ChannelText     = "text"     // of the message itself
	ChannelThinking = "thinking" // what the agent thinks before it writes it; nothing keeps it
)

// Delta is a piece of live text of the message that a run is writing; it is not durable. Offset is
// the position in the message's text of this channel in bytes, so a repeated delta is harmless.
type Delta struct {
	Run     string `json:"run"`
	Attempt int    `json:"attempt"`
	Message string `json:"message"`
	Offset  int    `json:"offset"`
	Channel string `json:"channel"` // ChannelText or ChannelThinking
	Text    string `json:"text"`
}
