package slack

import (
	"context"
	"strings"
	"time"

	"mailroom/internal/lazyregexp"
)

// referencePattern matches Slack's markup for a person, a channel, a group or a link.
var referencePattern = lazyregexp.New(`<([^<>\n]+)>`)

// decodeText converts Slack's markup to readable text: names instead of ids, and Markdown
// links. name returns the name of a user.
func decodeText(text string, name func(user string) string) string {
	text = referencePattern().ReplaceAllStringFunc(text, func(all string) string {
		of, label, labelled := strings.Cut(all[1:len(all)-1], "|")
		switch {
		case strings.HasPrefix(of, "@"):
			return "@" + name(of[1:])
		case strings.HasPrefix(of, "#") && labelled && label != "":
			return "#" + label
		case strings.HasPrefix(of, "#"):
			return of
		case strings.HasPrefix(of, "!subteam^") && labelled:
			return "@" + strings.TrimPrefix(label, "@")
		case strings.HasPrefix(of, "!date^") && labelled:
			return label
		case strings.HasPrefix(of, "!"):
			return "@" + of[1:] // such as <!here>
		case labelled && label != "" && label != of && strings.TrimPrefix(of, "mailto:") != label:
			return "[" + label + "](" + of + ")"
		}
		return strings.TrimPrefix(of, "mailto:")
	})
	return strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&").Replace(text)
}

// mentionedUsers returns the ids of the users that a text mentions.
func mentionedUsers(text string) (users []string) {
	for _, m := range referencePattern().FindAllStringSubmatch(text, -1) {
		if of, _, _ := strings.Cut(m[1], "|"); strings.HasPrefix(of, "@") {
			users = append(users, of[1:])
		}
	}
	return users
}

// resolveText decodes a text and replaces user ids with names. until bounds the wait for names.
func (c *connection) resolveText(ctx context.Context, text string, until time.Time) string {
	names := map[string]string{}
	for _, user := range mentionedUsers(text) {
		if names[user] = user; user == c.bot.ID {
			names[user] = c.bot.Name
		} else if name := c.userName(ctx, user, until); name != "" {
			names[user] = name
		}
	}
	return decodeText(text, func(user string) string { return names[user] })
}
