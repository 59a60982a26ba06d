package slack

import (
	"context"
	"regexp"
	"strings"
	"time"
)

// reference is what the platform writes for a person, a channel, a group or a link.
var reference = regexp.MustCompile(`<([^<>\n]+)>`)

// unwrap writes a text as people read it: names for ids, and links as Markdown has
// them. name gives the name of a user.
func unwrap(text string, name func(user string) string) string {
	text = reference.ReplaceAllStringFunc(text, func(all string) string {
		of, words, labelled := strings.Cut(all[1:len(all)-1], "|")
		switch {
		case strings.HasPrefix(of, "@"):
			return "@" + name(of[1:])
		case strings.HasPrefix(of, "#") && labelled && words != "":
			return "#" + words
		case strings.HasPrefix(of, "#"):
			return of
		case strings.HasPrefix(of, "!subteam^") && labelled:
			return "@" + strings.TrimPrefix(words, "@")
		case strings.HasPrefix(of, "!date^") && labelled:
			return words
		case strings.HasPrefix(of, "!"):
			return "@" + of[1:] // such as here
		case labelled && words != "" && words != of && strings.TrimPrefix(of, "mailto:") != words:
			return "[" + words + "](" + of + ")"
		}
		return strings.TrimPrefix(of, "mailto:")
	})
	return strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&").Replace(text)
}

// mentions are the users whom a text names.
func mentions(text string) (users []string) {
	for _, m := range reference.FindAllStringSubmatch(text, -1) {
		if of, _, _ := strings.Cut(m[1], "|"); strings.HasPrefix(of, "@") {
			users = append(users, of[1:])
		}
	}
	return users
}

// legible is a text with names for ids.
func (c *connection) legible(ctx context.Context, text string, until time.Time) string {
	names := map[string]string{}
	for _, user := range mentions(text) {
		if names[user] = user; user == c.bot.ID {
			names[user] = c.bot.Name
		} else if name := c.name(ctx, user, until); name != "" {
			names[user] = name
		}
	}
	return unwrap(text, func(user string) string { return names[user] })
}
