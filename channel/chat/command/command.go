// Package command defines the commands that users type in a chat.
package command

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"mailroom/channel/chat"
	"mailroom/internal/suggest"
)

// Commands act at once, even while the agent is busy.
const (
	Approve = "approve"
	Deny    = "deny"
	Help    = "help"
	New     = "new"
	Queue   = "queue"
	Start   = "start" // sent by some platforms for a new user
	Status  = "status"
	Steer   = "steer"
	Stop    = "stop"
)

// Command is a command as the menu and the help text show it.
type Command struct {
	Name      string // without a prefix
	Arguments string // such as " TEXT"
	Words     string // description
	Tier      chat.Tier
}

// Menu returns all commands except start, in the order of the help text.
func Menu() []Command {
	return []Command{
		{Status, "", "show what the agent is doing", chat.TierGuest},
		{Stop, "", "stop the current run and discard the queue", chat.TierGuest},
		{New, "", "start a new conversation", chat.TierGuest},
		{Queue, " TEXT", "send it after the current run", chat.TierGuest},
		{Steer, " TEXT", "send it to the current run", chat.TierGuest},
		{Approve, " [WORD]", "approve a request", chat.TierAdmin},
		{Deny, " [WORD] [REASON]", "deny a request", chat.TierAdmin},
		{Help, "", "list the commands", chat.TierGuest},
	}
}

func names() (all []string) {
	for _, c := range Menu() {
		all = append(all, c.Name)
	}
	return all
}

// RequiredTier returns the tier that a command requires.
func RequiredTier(name string) chat.Tier {
	for _, c := range Menu() {
		if c.Name == name {
			return c.Tier
		}
	}
	return chat.TierGuest
}

// Parsed is a parsed message.
type Parsed struct {
	Text        string // for the agent, without the bot's name in front
	Command     string // "" for none
	Rest        string // arguments of the command
	Suggestion  string // likely meant by an unknown command
	NamesBot    bool   // the text or the command names the bot
	ForOtherBot bool   // the command names another bot
}

// Parse parses a message to a bot with this name. A command begins with a slash or, because
// many clients reserve the slash, with an exclamation mark.
func Parse(text, bot string) Parsed {
	p := Parsed{}
	p.Text, p.NamesBot = cutBotName(text, bot)
	trimmed := strings.TrimSpace(p.Text)
	if trimmed == "" || trimmed[0] != '/' && trimmed[0] != '!' {
		return p
	}
	end := strings.IndexFunc(trimmed, unicode.IsSpace)
	if end < 0 {
		end = len(trimmed)
	}
	word, to, addressed := strings.Cut(strings.ToLower(trimmed[1:end]), "@")
	known := word == Start || slices.Contains(names(), word)
	switch {
	case addressed && !strings.EqualFold(to, bot):
		p.ForOtherBot = isCommandName(word)
	case known:
		p.Command, p.Rest = word, strings.TrimSpace(trimmed[end:])
		p.NamesBot = p.NamesBot || addressed
	case trimmed[0] == '/' && isCommandName(word):
		p.Suggestion = suggest.Word(word, names())
	}
	return p
}

// isCommandName reports whether a word may be a command name rather than a path.
func isCommandName(word string) bool {
	return word != "" && !strings.ContainsFunc(word, func(r rune) bool { return r != '_' && r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// cutBotName cuts the bot's name off the beginning of a text: "@bot …", "bot: …" or "bot, …".
func cutBotName(text, bot string) (rest string, named bool) {
	trimmed := strings.TrimLeftFunc(text, unicode.IsSpace)
	at := strings.TrimPrefix(trimmed, "@")
	if bot == "" || len(at) < len(bot) || !strings.EqualFold(at[:len(bot)], bot) {
		return text, false
	}
	rest = at[len(bot):]
	next, _ := utf8.DecodeRuneInString(rest)
	switch {
	case next == ':' || next == ',':
		rest = rest[1:]
	case at == trimmed || rest != "" && !unicode.IsSpace(next):
		return text, false // a longer word, or a sentence about the bot
	}
	return strings.TrimLeftFunc(rest, unicode.IsSpace), true
}

// Text returns a command as users type it.
func Text(t chat.Capabilities, name string) string { return cmp.Or(t.CommandPrefix, "/") + name }

// HelpText lists the commands of a tier.
func HelpText(t chat.Tier, on chat.Capabilities) string {
	lines := []string{"Messages go to the agent. These commands act at once, even while it works:"}
	for _, c := range Menu() {
		if t >= c.Tier {
			lines = append(lines, Text(on, c.Name)+c.Arguments+" – "+c.Words)
		}
	}
	if on.CommandPrefix == "" {
		lines = append(lines, "If your app intercepts /, use ! instead.")
	}
	return strings.Join(lines, "\n")
}
