package chat

import (
	"context"
	"fmt"
	"io"
	"mime"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"mailroom"
)

// fileTimeout bounds how long a text file is read from a platform.
const fileTimeout = 20 * time.Second

// mostFiles of one message are handed on.
const mostFiles = 10

// parts are what an agent gets of a message. Bytes have no home in this house: a
// small text file is handed on as text, and of any other file its name and where it
// is.
func parts(ctx context.Context, text string, files []File, most int64) []mailroom.Part {
	var all []mailroom.Part
	if strings.TrimSpace(text) != "" {
		all = mailroom.Text(text)
	}
	for i, f := range files {
		if i == mostFiles {
			all = append(all, mailroom.Text(fmt.Sprintf("(%d more files are left out)", len(files)-i))...)
			break
		}
		name := oneLine(f.Name)
		if name == "" {
			name = "unnamed"
		}
		content, why := readText(ctx, f, most)
		switch {
		case why == "":
			all = append(all, mailroom.Text("File "+name+":\n"+content)...)
		case f.URI != "":
			all = append(all, mailroom.Part{Type: "file", URI: clean(f.URI), MimeType: clean(f.MimeType), Name: name})
		default:
			all = append(all, mailroom.Text(fmt.Sprintf("(a file %s was sent, which is not here: %s)", name, why))...)
		}
	}
	return all
}

// readText reads a file that is text and not too large, or says why not.
func readText(ctx context.Context, f File, most int64) (text, why string) {
	if most == 0 {
		most = DefaultMaxFile
	}
	switch {
	case !isText(f):
		return "", "it is no text"
	case f.Size > most:
		return "", fmt.Sprintf("it has %d bytes, and %d are read", f.Size, most)
	case f.Open == nil:
		return "", "the platform does not hand it out"
	}
	ctx, cancel := context.WithTimeout(ctx, fileTimeout)
	defer cancel()
	r, err := f.Open(ctx)
	if err != nil {
		return "", "it could not be fetched"
	}
	defer func() { _ = r.Close() }() // it was only read
	raw, err := io.ReadAll(io.LimitReader(r, most+1))
	switch {
	case err != nil:
		return "", "it could not be fetched"
	case int64(len(raw)) > most:
		return "", fmt.Sprintf("it has more than %d bytes", most)
	case !utf8.Valid(raw) || strings.ContainsRune(string(raw), 0):
		return "", "it is no text"
	}
	return string(raw), ""
}

// clean is text as it can be kept.
func clean(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\x00", "")
}

// isText reports whether a file calls itself text.
func isText(f File) bool {
	kind, _, err := mime.ParseMediaType(f.MimeType)
	if err == nil && kind != "application/octet-stream" {
		switch kind {
		case "application/json", "application/xml", "application/x-yaml", "application/yaml", "application/toml", "application/x-sh", "application/javascript":
			return true
		}
		return strings.HasPrefix(kind, "text/")
	}
	switch strings.ToLower(path.Ext(f.Name)) {
	case ".txt", ".md", ".log", ".csv", ".json", ".jsonl", ".yaml", ".yml", ".toml", ".xml", ".html", ".go", ".py", ".js", ".ts", ".sh", ".c", ".h", ".rs", ".java", ".sql", ".diff", ".patch", ".ini", ".conf":
		return true
	}
	return false
}
