package exec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"unicode"

	"mailroom"
)

// FileSource makes files that messages name available on this machine.
//
// Servers on PostgreSQL keep the files of messages in the database, so a message has a URI without a machine,
// mailroom-file:HASH.EXT. Only this package needs a path on this machine, and asks for the path before a run. If the
// server's folder does not have the file, the server fetches it from the database and checks its hash.
//
// Any user may write such a URI into a message. The URI gives a file only to a user who knows the hash of its
// content, which cannot be guessed without the content. The same rule holds for file: URIs and for the isolation of
// programs. The name is checked strictly before it becomes a path. Only stored names can be fetched, so no message
// can make a server keep the same content under many names.
type FileSource interface {
	// Path returns the path that a file has on this machine, below Options.Files, or false if uri names
	// no file of this source. The uri comes from a message and is not trusted.
	Path(uri string) (path string, ok bool)
	// Fetch makes the file available at its path. An error of code unavailable is an outage, after which the run is
	// retried. The message of any other [mailroom.Error] says why the file does not exist.
	Fetch(ctx context.Context, uri string) error
}

// maxFetched is the maximum number of files that an attempt fetches. The latest files take precedence. Files that
// this machine already has do not count.
const maxFetched = 50

// localFiles gives the messages of one attempt the paths that their files have on this machine. It is not safe for
// concurrent use.
type localFiles struct {
	source  FileSource // nil: messages are not changed
	fetched int
	missing map[string]string // why a file cannot be had, by its URI
}

func (a *agent) localFiles() *localFiles {
	return &localFiles{source: a.options.Source, missing: map[string]string{}}
}

// messages returns all, with URIs of files replaced by paths on this machine. A file that cannot be fetched is
// replaced by a text that says why.
func (l *localFiles) messages(ctx context.Context, all []mailroom.Message) ([]mailroom.Message, error) {
	if l.source == nil {
		return all, nil
	}
	local := slices.Clone(all)
	for m := len(local) - 1; m >= 0; m-- { // the latest first
		local[m].Parts = slices.Clone(local[m].Parts)
		for i, p := range local[m].Parts {
			if p.Type != "file" {
				continue
			}
			path, why, err := l.find(ctx, p.URI)
			switch {
			case err != nil:
				return nil, err
			case why != "":
				local[m].Parts[i] = mailroom.Text(fmt.Sprintf("(file %s is not available: %s)", oneLine(cmp.Or(p.Name, "unnamed")),
					why))[0]
			case path != "":
				local[m].Parts[i].URI = (&url.URL{Scheme: "file", Path: path}).String()
			}
		}
	}
	return local, nil
}

// find returns the path of a file on this machine, or why the file is not available. Both are "" for a URI of another
// kind.
func (l *localFiles) find(ctx context.Context, uri string) (path, why string, err error) {
	path, ok := l.source.Path(uri)
	if !ok {
		return "", "", nil
	}
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
		return path, "", nil
	}
	if why := l.missing[uri]; why != "" {
		return "", why, nil
	}
	if l.fetched == maxFetched {
		return "", fmt.Sprintf("the conversation has more than %d files that this server does not have", maxFetched), nil
	}
	l.fetched++
	err = l.source.Fetch(ctx, uri)
	var known *mailroom.Error
	switch {
	case err == nil:
		return path, "", nil
	case ctx.Err() != nil:
		return "", "", context.Cause(ctx)
	case mailroom.CodeOf(err) == mailroom.CodeUnavailable:
		return "", "", &mailroom.Failure{Class: mailroom.ClassUnavailable,
			Err: fmt.Errorf("fetch a file of a message: %w", err)}
	case errors.As(err, &known):
		why = known.Message
	default:
		why = "it cannot be read"
	}
	l.missing[uri] = why
	return "", why, nil
}

// uris returns the URIs of the source's files in messages.
func (l *localFiles) uris(messages []mailroom.Message) (uris []string) {
	if l.source == nil {
		return nil
	}
	for _, m := range messages {
		for _, p := range m.Parts {
			if _, ok := l.source.Path(p.URI); ok && p.Type == "file" {
				uris = append(uris, p.URI)
			}
		}
	}
	return uris
}

// texts returns texts with the given URIs replaced by paths of this machine. The checkpoint keeps steered texts with
// their URIs, because the next attempt may run on another machine.
func (l *localFiles) texts(ctx context.Context, texts, uris []string) ([]string, error) {
	if l.source == nil || len(texts) == 0 || len(uris) == 0 {
		return texts, nil
	}
	local := slices.Clone(texts)
	uris = slices.Clone(uris)
	slices.SortFunc(uris, func(a, b string) int { return cmp.Compare(len(b), len(a)) }) // a URI may begin with another one
	for _, uri := range uris {
		if !slices.ContainsFunc(local, func(text string) bool { return strings.Contains(text, uri) }) {
			continue
		}
		path, why, err := l.find(ctx, uri)
		switch {
		case err != nil:
			return nil, err
		case why != "":
			path = "(not available: " + why + ")"
		case path == "": // the checkpoint is of a server with another source
			continue
		}
		for i := range local {
			local[i] = strings.ReplaceAll(local[i], uri, oneLine(path))
		}
	}
	return local, nil
}

// filePath returns the path of a file on this machine that uri names, and any other URI unchanged.
func (a *agent) filePath(uri string) string {
	if a.options.Source != nil {
		if path, ok := a.options.Source.Path(uri); ok {
			return path
		}
	}
	return filePath(uri)
}

// oneLine replaces the control characters of text by spaces.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}
