package bd

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"mailroom/internal/display"
	"mailroom/issues/tracker"
)

// settings is the content of .beads/config.toml.
type settings struct {
	Prefix string        `toml:"prefix,omitempty"` // prefix of new ids
	Mail   *mailSettings `toml:"mail,omitempty"`

	digest string // digest of the file; "" if there is none
}

// mailSettings configure the agent mail server. They have no token, because git tracks the file with the settings.
type mailSettings struct {
	URL     string `toml:"url,omitempty"`
	Project string `toml:"project,omitempty"`
}

const (
	settingsFile = "config.toml"
	maxSettings  = 64 << 10 // bytes
)

// readSettings reads the file. On an error it returns the valid part, if any.
func readSettings(dir tracker.Folder) (s settings, err error) {
	raw, err := dir.ReadFile(settingsFile, maxSettings)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		s.digest = digestOf(raw)
		err = toml.NewDecoder(bytes.NewReader(raw)).DisallowUnknownFields().Decode(&s)
	}
	if err == nil {
		return s, nil
	}
	if strict, ok := errors.AsType[*toml.StrictMissingError](err); ok {
		return s, fmt.Errorf("%s of the tracker: %s", settingsFile, unknownKey(strict.Errors[0].Key()))
	}
	if wrong, ok := errors.AsType[*toml.DecodeError](err); ok {
		line, _ := wrong.Position()
		return settings{}, fmt.Errorf("%s of the tracker, line %d: %s", settingsFile, line,
			strings.TrimPrefix(wrong.Error(), "toml: "))
	}
	return settings{}, fmt.Errorf("read %s of the tracker: %w", settingsFile, err)
}

func unknownKey(key []string) string {
	word, known := key[0], []string{"prefix", "mail"}
	if len(key) > 1 && key[0] == "mail" {
		word, known = key[1], []string{"url", "project"}
	}
	name := strings.Join(key, ".")
	if near := display.Suggest(word, known); near != "" {
		return fmt.Sprintf("unknown key %s (did you mean %q?)", name, near)
	}
	return fmt.Sprintf("unknown key %s; known are %s", name, strings.Join(known, ", "))
}

// settings returns the tracker's settings. It warns once about an invalid file and continues.
func (m *Main) settings(dir tracker.Folder) settings {
	s, err := readSettings(dir)
	if err != nil && !m.settingsWarned {
		m.settingsWarned = true
		m.out.logf("Warning: %s; going on without it", err.Error())
	}
	return s
}

func digestOf(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// writeSettings replaces the settings, and marks them as trusted if trust is set.
func (m *Main) writeSettings(ctx context.Context, dir tracker.Folder, set settings, trust bool) error {
	raw, err := toml.Marshal(set)
	if err == nil {
		err = m.waiting(dir).WriteFile(ctx, settingsFile, raw)
	}
	if err == nil && trust {
		err = m.trust(ctx, realPath(dir.Path()), digestOf(raw))
	}
	if err != nil {
		return fmt.Errorf("write %s of the tracker: %w", settingsFile, err)
	}
	return nil
}
