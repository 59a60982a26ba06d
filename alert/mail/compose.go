package mail

import (
	"bytes"
	_ "embed" // embeds page
	"fmt"
	"html/template"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"

	"mailroom/alert"
	"mailroom/internal/display"
)

//go:embed message.html
var page string // archtest: an embedded file, never written.

// content has what the text part and the HTML part of a mail show.
type content struct {
	Title, Body string
	Choices     string // labels of the decisions; a mail has no buttons
	URL         string
}

// compose returns the bytes of a message (RFC 5322).
func (t *Target) compose(m alert.Message, now time.Time) ([]byte, error) {
	c := content{Title: subject(m), Body: m.Body, URL: m.URL}
	if m.URL != "" && len(m.Buttons) > 0 { // the page shows the whole question, so it offers both decisions
		c.Choices = "Approve or Deny"
	}
	html, err := c.html()
	if err != nil {
		return nil, err
	}
	out := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	out.FromMailAddress(t.from)
	out.ToMailAddress(t.to...)
	// A mail program decodes an encoded word (RFC 2047), which could hide what the title says.
	out.Subject(strings.ReplaceAll(c.Title, "=?", "= ?"))
	out.SetMessageIDWithValue(m.Key + "@" + t.from.Address[strings.LastIndexByte(t.from.Address, '@')+1:])
	out.SetDateWithValue(now)
	out.SetGenHeader("Auto-Submitted", "auto-generated") // RFC 3834: no automatic reply is wanted
	out.SetBodyString(gomail.TypeTextPlain, c.text())
	out.AddAlternativeString(gomail.TypeTextHTML, html)
	var b bytes.Buffer
	if _, err := out.WriteTo(&b); err != nil {
		return nil, fmt.Errorf("encode the message: %w", err)
	}
	return b.Bytes(), nil
}

// subject returns the title of a message, which says whether an earlier one may have arrived.
func subject(m alert.Message) string {
	title := strings.TrimSpace(display.Cut(display.Line(m.Title), alert.MaxTitle))
	if m.Repeated {
		return "(repeated) " + title
	}
	return title
}

func (c content) text() string {
	parts := []string{c.Title}
	if c.Body != "" {
		parts = append(parts, c.Body)
	}
	switch {
	case c.Choices != "":
		parts = append(parts, c.Choices+" on the page:\n"+c.URL)
	case c.URL != "":
		parts = append(parts, "Open:\n"+c.URL)
	}
	return strings.Join(parts, "\n\n") + "\n"
}

func (c content) html() (string, error) {
	t, err := template.New("message").Parse(page)
	if err != nil {
		return "", fmt.Errorf("parse the template of a message: %w", err)
	}
	var b strings.Builder
	if err := t.Execute(&b, c); err != nil {
		return "", fmt.Errorf("render the message: %w", err)
	}
	return b.String(), nil
}
