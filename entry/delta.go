package entry

// Delta is a piece of live text of the message that a run is writing; it is not durable. Offset is
// the position in the message's text in bytes, so a repeated delta is harmless.
type Delta struct {
	Run     string `json:"run"`
	Attempt int    `json:"attempt"`
	Message string `json:"message"`
	Offset  int    `json:"offset"`
	Channel string `json:"channel"` // "text"
	Text    string `json:"text"`
}
