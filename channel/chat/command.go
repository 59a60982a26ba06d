package chat

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"mailroom/internal/display"
)

// Commands act at once, even while the agent is busy.
const (
	CommandApprove = "approve"
	CommandDeny    = "deny"
	CommandHelp    = "help"
	CommandNew     = "new"
	CommandQueue   = "queue"
	CommandRemind  = "remind"
	// CommandSchedule sends to the agent again and again, CommandSchedules lists and cancels.
	CommandSchedule  = "schedule"
	CommandSchedules = "schedules"
	CommandStart     = "start" // sent by some platforms for a new user
	CommandStatus    = "status"
	CommandSteer     = "steer"
	CommandStop      = "stop"
)

// Command is a command as the menu and the help text show it.
type Command struct {
	Name      string // name of the command without a prefix
	Arguments string // such as " TEXT"
	Words     string // description
	Tier      Tier
}

// CommandMenu returns all commands except start, in the order of the help text.
func CommandMenu() []Command {
	return []Command{
		{CommandStatus, "", "show what the agent is doing", TierGuest},
		{CommandStop, "", "stop the current run and discard the queue", TierGuest},
		{CommandNew, "", "start a new conversation", TierGuest},
		{CommandQueue, " TEXT", "send it after the current run", TierGuest},
		{CommandSteer, " TEXT", "send it to the current run", TierGuest},
		{CommandRemind, " TIME TEXT", "remind this chat: in 20m, 17:30 or tomorrow 9:00", TierGuest},
		{CommandSchedule, " CRON TEXT", "send it to the agent again and again: 0 7 * * 1-5 or every 90m", TierGuest},
		{CommandSchedules, "", "list what is scheduled, cancel NUMBER, or set the zone", TierGuest},
		{CommandApprove, " [WORD]", "approve a request", TierAdmin},
		{CommandDeny, " [WORD] [REASON]", "deny a request", TierAdmin},
		{CommandHelp, "", "list the commands", TierGuest},
	}
}

func commandNames() (all []string) {
	for _, c := range CommandMenu() {
		all = append(all, c.Name)
	}
	return all
}

// RequiredTier returns the tier that a command requires.
func RequiredTier(name string) Tier {
	for _, c := range CommandMenu() {
		if c.Name == name {
			return c.Tier
		}
	}
	return TierGuest
}

// ParsedText is a parsed message.
type ParsedText struct {
	Text        string // text for the agent, without the bot's name in front
	Command     string // name of the command; "" if the text is no command
	Rest        string // arguments of the command
	Suggestion  string // likely meant by an unknown command
	NamesBot    bool   // the text or the command names the bot
	ForOtherBot bool   // the command names another bot
}

// ParseText parses a message to a bot with this name. A command begins with a slash or, because
// many clients reserve the slash, with an exclamation mark.
func ParseText(text, bot string) ParsedText {
	p := ParsedText{}
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
	known := word == CommandStart || slices.Contains(commandNames(), word)
	switch {
	case addressed && !strings.EqualFold(to, bot):
		p.ForOtherBot = isCommandName(word)
	case known:
		p.Command, p.Rest = word, strings.TrimSpace(trimmed[end:])
		p.NamesBot = p.NamesBot || addressed
	case trimmed[0] == '/' && isCommandName(word):
		p.Suggestion = display.Suggest(word, commandNames())
	}
	return p
}

// isCommandName reports whether a word may be a command name rather than a path.
func isCommandName(word string) bool {
	return word != "" && !strings.ContainsFunc(word, func(r rune) bool {
		return r != '_' && r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
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

// CommandText returns a command as users type it.
func CommandText(t Capabilities, name string) string { return cmp.Or(t.CommandPrefix, "/") + name }

// HelpText lists the commands of a tier.
func HelpText(t Tier, on Capabilities) string {
	lines := []string{"Messages go to the agent. These commands act at once, even while it works:"}
	for _, c := range CommandMenu() {
		if t >= c.Tier {
			lines = append(lines, CommandText(on, c.Name)+c.Arguments+" – "+c.Words)
		}
	}
	if on.CommandPrefix == "" {
		lines = append(lines, "If your app intercepts /, use ! instead.")
	}
	return strings.Join(lines, "\n")
}
