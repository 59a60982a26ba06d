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

// names returns all commands except start, in the order of the help text.
func names() []string {
	return []string{Status, Stop, New, Queue, Steer, Approve, Deny, Help}
}

// MenuItem is a command in a platform's menu.
type MenuItem struct {
	Name  string // without a prefix
	Words string // description
}

// Menu returns the commands for a platform's menu.
func Menu() []MenuItem {
	var all []MenuItem
	for _, c := range names() {
		all = append(all, MenuItem{Name: c, Words: describe(c)})
	}
	return all
}

// describe describes a command.
func describe(command string) string {
	switch command {
	case Status:
		return "show what the agent is doing"
	case Stop:
		return "stop the current run and discard the queue"
	case New:
		return "start a new conversation"
	case Queue:
		return "send it after the current run"
	case Steer:
		return "send it to the current run"
	case Approve:
		return "approve a request"
	case Deny:
		return "deny a request"
	}
	return "list the commands"
}

// arguments returns the arguments of a command.
func arguments(command string) string {
	switch command {
	case Queue, Steer:
		return " TEXT"
	case Approve:
		return " [WORD]"
	case Deny:
		return " [WORD] [REASON]"
	}
	return ""
}

// RequiredTier returns the tier that a command requires.
func RequiredTier(command string) chat.Tier {
	switch command {
	case Approve, Deny:
		return chat.TierAdmin
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
	for _, c := range names() {
		if t >= RequiredTier(c) {
			lines = append(lines, Text(on, c)+arguments(c)+" – "+describe(c))
		}
	}
	if on.CommandPrefix == "" {
		lines = append(lines, "If your app intercepts /, use ! instead.")
	}
	return strings.Join(lines, "\n")
}
