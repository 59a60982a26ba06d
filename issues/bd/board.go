package bd

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mailroom"
	"mailroom/internal/digest"
	"mailroom/issues/tracker"
)

// Source reads the issues of a board outside.
type Source func(ctx context.Context, r tracker.Remote) ([]tracker.Outside, error)

// boardSource is a board that bd import can read.
type boardSource struct {
	name, example string
	tokens        []string // environment variables with the token, the first one that is set counts
	api           string   // environment variable with another address of the API
}

func boardSources() []boardSource {
	return []boardSource{
		{"github", "OWNER/NAME", []string{"GITHUB_TOKEN", "GH_TOKEN"}, "GITHUB_API_URL"},
		{"linear", "TEAM or a project's address", []string{"LINEAR_API_KEY", "LINEAR_TOKEN"}, "LINEAR_API_URL"},
	}
}

// sourceNames names what --from takes.
func sourceNames() string {
	names := []string{sourceBeads}
	for _, s := range boardSources() {
		names = append(names, s.name)
	}
	return strings.Join(names, ", ")
}

func boardIndex(source string) int {
	return slices.IndexFunc(boardSources(), func(s boardSource) bool { return s.name == source })
}

func isBoard(source string) bool { return boardIndex(source) >= 0 }

// boardName returns the name of a board as a part of a file's name. It ends with a digest, because a file's name cannot
// have all characters of a board's: a_b/c and a-b/c are two boards.
func boardName(place string) string {
	place = strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(place), "/"), ".git")
	for _, prefix := range []string{"https://", "github.com/", "linear.app/"} {
		place = strings.TrimPrefix(place, prefix)
	}
	name := strings.ReplaceAll(prefixFrom(place), "_", "-")
	const most, digits = 100, 8
	return name[:min(len(name), most)] + "-" + digest.Short(place)[:digits]
}

// overlap is how far an import looks back before the newest change that it knows, for changes that became visible late,
// and for a second change at a time that has only seconds.
const overlap = 10 * time.Minute

// fetch reads what a board has that the last import did not read, and returns the lines of an import into a tracker.
func (i importing) fetch(ctx context.Context, m *Main, last string) (func(*tracker.Tracker) string, error) {
	s := boardSources()[boardIndex(i.source)] // checked by the command
	read := m.Sources[s.name]
	switch {
	case read == nil:
		return nil, mailroom.Errorf(mailroom.CodeInvalid, "this program cannot read issues of %s", s.name)
	case i.file == "":
		return nil, mailroom.Errorf(mailroom.CodeInvalid, "name the board: import --from %s %s", s.name, s.example)
	}
	past, _ := tracker.Parse(last)
	r := tracker.Remote{Place: i.file, API: m.Env(s.api), Closed: i.closed, Seen: tracker.Seen(past)}
	for _, name := range s.tokens {
		if r.Token == "" {
			r.Token = m.Env(name)
		}
	}
	if r.Token == "" {
		return nil, mailroom.Errorf(mailroom.CodeInvalid, "no token for %s; set %s", s.name, s.tokens[0])
	}
	for _, seen := range r.Seen {
		if t := seen.Add(-overlap); t.After(r.Since) {
			r.Since = t
		}
	}
	maps.DeleteFunc(r.Seen, func(_ string, seen time.Time) bool { return !seen.Before(r.Since) })
	came, err := read(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("%w; nothing was imported", err)
	}
	dir, err := m.folder()
	if err != nil {
		return nil, err
	}
	prefix := m.settings(dir).Prefix
	return func(t *tracker.Tracker) string {
		prefix := cmp.Or(prefix, t.Prefix(), prefixFrom(filepath.Base(filepath.Dir(dir.Path()))))
		return tracker.OutsideLines(t, came, prefix, i.closed)
	}, nil
}
