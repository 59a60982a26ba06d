package exec

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"

	"mailroom"
)

// promptText returns the input as text. Text parts are unchanged, data is compact JSON, and a file
// is one line with its name and its path or address. Each part starts a new line.
func promptText(input []mailroom.Message) string {
	var lines []string
	for _, m := range input {
		lines = append(lines, messageText(m))
	}
	return strings.Join(lines, "\n")
}

// messageText returns one message as text. What another model thought before it wrote the message is no part of what
// was said.
func messageText(m mailroom.Message) string {
	if len(m.Parts) == 0 {
		return m.Text
	}
	var lines []string
	for _, p := range m.Parts {
		if p.Type != mailroom.PartReasoning {
			lines = append(lines, partText(p))
		}
	}
	return strings.Join(lines, "\n")
}

func partText(p mailroom.Part) string {
	switch p.Type {
	case "data":
		var b bytes.Buffer
		if json.Compact(&b, p.Data) != nil {
			return string(p.Data) // cannot happen: messages are validated
		}
		return b.String()
	case "file":
		line := "file"
		for _, s := range []string{p.Name, filePath(p.URI)} {
			if s != "" {
				line += " " + s
			}
		}
		return oneLine(line) // whatever the name
	}
	return p.Text
}

// filePath returns the path of a local file URI, and any other URI unchanged.
func filePath(uri string) string {
	if u, err := url.Parse(uri); err == nil && u.Scheme == "file" && u.Host == "" && u.Path != "" {
		return u.Path
	}
	return uri
}
