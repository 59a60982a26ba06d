package chat

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"mailroom/internal/suggest"
)

// Commands act at once, even while the agent is busy.
const (
	cmdApprove = "approve"
	cmdDeny    = "deny"
	cmdHelp    = "help"
	cmdNew     = "new"
	cmdQueue   = "queue"
	cmdStart   = "start" // sent by some platforms for a new user
	cmdStatus  = "status"
	cmdSteer   = "steer"
	cmdStop    = "stop"
)

// commands returns all commands except start, in the order of the help text.
func commands() []string {
	return []string{cmdStatus, cmdStop, cmdNew, cmdQueue, cmdSteer, cmdApprove, cmdDeny, cmdHelp}
}

// MenuItem is a command in a platform's menu.
type MenuItem struct {
	Name  string // without a prefix
	Words string // description
}

// Menu returns the commands for a platform's menu.
func Menu() []MenuItem {
	var all []MenuItem
	for _, c := range commands() {
		all = append(all, MenuItem{Name: c, Words: commandHelp(c)})
	}
	return all
}

// commandHelp describes a command.
func commandHelp(command string) string {
	switch command {
	case cmdStatus:
		return "show what the agent is doing"
	case cmdStop:
		return "stop the current run and discard the queue"
	case cmdNew:
		return "start a new conversation"
	case cmdQueue:
		return "send it after the current run"
	case cmdSteer:
		return "send it to the current run"
	case cmdApprove:
		return "approve a request"
	case cmdDeny:
		return "deny a request"
	}
	return "list the commands"
}

// commandArgs returns the arguments of a command.
func commandArgs(command string) string {
	switch command {
	case cmdQueue, cmdSteer:
		return " TEXT"
	case cmdApprove:
		return " [WORD]"
	case cmdDeny:
		return " [WORD] [REASON]"
	}
	return ""
}

// requiredTier returns the tier that a command requires.
func requiredTier(command string) Tier {
	switch command {
	case cmdApprove, cmdDeny:
		return TierAdmin
	}
	return TierGuest
}

// parsedText is a parsed message.
type parsedText struct {
	text        string // for the agent, without the bot's name in front
	command     string // "" for none
	rest        string // arguments of the command
	suggestion  string // likely meant by an unknown command
	namesBot    bool   // the text or the command names the bot
	forOtherBot bool   // the command names another bot
}

// parseText parses a message to a bot with this name. A command begins with a slash or, because
// many clients reserve the slash, with an exclamation mark.
func parseText(text, bot string) parsedText {
	p := parsedText{}
	p.text, p.namesBot = cutBotName(text, bot)
	trimmed := strings.TrimSpace(p.text)
	if trimmed == "" || trimmed[0] != '/' && trimmed[0] != '!' {
		return p
	}
	end := strings.IndexFunc(trimmed, unicode.IsSpace)
	if end < 0 {
		end = len(trimmed)
	}
	word, to, addressed := strings.Cut(strings.ToLower(trimmed[1:end]), "@")
	known := word == cmdStart || slices.Contains(commands(), word)
	switch {
	case addressed && !strings.EqualFold(to, bot):
		p.forOtherBot = isCommandName(word)
	case known:
		p.command, p.rest = word, strings.TrimSpace(trimmed[end:])
		p.namesBot = p.namesBot || addressed
	case trimmed[0] == '/' && isCommandName(word):
		p.suggestion = suggest.Word(word, commands())
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

// commandText returns a command as users type it.
func (t Capabilities) commandText(name string) string { return cmp.Or(t.CommandPrefix, "/") + name }

// helpText lists the commands of a tier.
func helpText(t Tier, on Capabilities) string {
	lines := []string{"Messages go to the agent. These commands act at once, even while it works:"}
	for _, c := range commands() {
		if t >= requiredTier(c) {
			lines = append(lines, on.commandText(c)+commandArgs(c)+" – "+commandHelp(c))
		}
	}
	if on.CommandPrefix == "" {
		lines = append(lines, "If your app intercepts /, use ! instead.")
	}
	return strings.Join(lines, "\n")
}
