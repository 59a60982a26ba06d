package chat

// ContextKind says how the words of another author came with a message.
type ContextKind string

const (
	ContextReply   ContextKind = "reply"   // the message that is answered
	ContextQuote   ContextKind = "quote"   // the part of it that the author chose
	ContextForward ContextKind = "forward" // a message that the author passes on
	ContextEdit    ContextKind = "edit"    // what the message was before
)

// MaxContextText is the number of characters of a [Context] that the agent gets.
const MaxContextText = 2000

// Context is a text in a message that the author of the message did not write for it. It is shown to the
// agent under the name of its own author and decides nothing: it is no command, no decision, and does not
// address the bot. A platform keeps it out of [Event].Text.
type Context struct {
	Kind   ContextKind `json:"kind"`
	Author User        `json:"author"`           // author of the message, as far as the platform says
	ByBot  bool        `json:"by_bot,omitempty"` // the author is this bot
	Text   string      `json:"text,omitempty"`   // text of the message; "" if it has no text
	Files  bool        `json:"files,omitempty"`  // the files of the event belong to it
}
