package chat

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"mailroom/internal/nearest"
)

// Commands act at once, however busy the agent is.
const (
	cmdApprove = "approve"
	cmdDeny    = "deny"
	cmdHelp    = "help"
	cmdNew     = "new"
	cmdQueue   = "queue"
	cmdStart   = "start" // what some platforms say for a user who is new
	cmdStatus  = "status"
	cmdSteer   = "steer"
	cmdStop    = "stop"
)

// commands are all of them but start, in the order of the help.
func commands() []string {
	return []string{cmdStatus, cmdStop, cmdNew, cmdQueue, cmdSteer, cmdApprove, cmdDeny, cmdHelp}
}

// MenuItem is a command as a platform's menu offers it.
type MenuItem struct {
	Name  string // without a sign before it
	Words string // what it does
}

// Menu are the commands for menus of platforms.
func Menu() []MenuItem {
	var all []MenuItem
	for _, c := range commands() {
		all = append(all, MenuItem{Name: c, Words: commandHelp(c)})
	}
	return all
}

// commandHelp says what a command does.
func commandHelp(command string) string {
	switch command {
	case cmdStatus:
		return "what the agent does"
	case cmdStop:
		return "stop it, and forget what waits"
	case cmdNew:
		return "begin a new conversation"
	case cmdQueue:
		return "say it when the present work is done"
	case cmdSteer:
		return "say it into the present work"
	case cmdApprove:
		return "allow what it asks to do"
	case cmdDeny:
		return "refuse what it asks to do"
	}
	return "what I understand"
}

// commandArgs is what follows the name of a command.
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

// requiredTier is the tier that a command takes.
func requiredTier(command string) Tier {
	switch command {
	case cmdApprove, cmdDeny:
		return TierAdmin
	}
	return TierGuest
}

// parsedText is what somebody said, taken apart.
type parsedText struct {
	text        string // what is for the agent: without the name of the bot before it
	command     string // "" if it is none
	rest        string // of a command: what follows its name
	suggestion  string // a command that was probably meant by one that does not exist
	namesBot    bool   // it begins with the name of the bot, or the command has it
	forOtherBot bool   // a command to another bot
}

// parseText takes apart what was said to a bot of this name. A command begins with a slash
// or, because many programs keep that for themselves, with an exclamation mark.
func parseText(text, bot string) parsedText {
	p := parsedText{}
	p.text, p.namesBot = cutBotName(text, bot)
	said := strings.TrimSpace(p.text)
	if said == "" || said[0] != '/' && said[0] != '!' {
		return p
	}
	end := strings.IndexFunc(said, unicode.IsSpace)
	if end < 0 {
		end = len(said)
	}
	word, to, addressed := strings.Cut(strings.ToLower(said[1:end]), "@")
	known := word == cmdStart || slices.Contains(commands(), word)
	switch {
	case addressed && !strings.EqualFold(to, bot):
		p.forOtherBot = isCommandName(word)
	case known:
		p.command, p.rest = word, strings.TrimSpace(said[end:])
		p.namesBot = p.namesBot || addressed
	case said[0] == '/' && isCommandName(word):
		p.suggestion = nearest.Word(word, commands())
	}
	return p
}

// isCommandName reports whether a word may be the name of a command, and no path.
func isCommandName(word string) bool {
	return word != "" && !strings.ContainsFunc(word, func(r rune) bool { return r != '_' && r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// cutBotName takes the name of the bot from the beginning of a text: "@bot …",
// "bot: …" or "bot, …".
func cutBotName(text, bot string) (rest string, named bool) {
	said := strings.TrimLeftFunc(text, unicode.IsSpace)
	at := strings.TrimPrefix(said, "@")
	if bot == "" || len(at) < len(bot) || !strings.EqualFold(at[:len(bot)], bot) {
		return text, false
	}
	rest = at[len(bot):]
	next, _ := utf8.DecodeRuneInString(rest)
	switch {
	case next == ':' || next == ',':
		rest = rest[1:]
	case at == said || rest != "" && !unicode.IsSpace(next):
		return text, false // a word that only begins like it, or talk about it
	}
	return strings.TrimLeftFunc(rest, unicode.IsSpace), true
}

// commandText is how people say a command.
func (t Capabilities) commandText(name string) string { return cmp.Or(t.CommandPrefix, "/") + name }

// helpText says what a tier may do.
func helpText(t Tier, on Capabilities) string {
	lines := []string{"What you write goes to the agent. These act at once, also while it works:"}
	for _, c := range commands() {
		if t >= requiredTier(c) {
			lines = append(lines, on.commandText(c)+commandArgs(c)+" – "+commandHelp(c))
		}
	}
	if on.CommandPrefix == "" {
		lines = append(lines, "Where / does not get through, ! does the same.")
	}
	return strings.Join(lines, "\n")
}
