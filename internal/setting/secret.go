package setting

import (
	"fmt"
	"os"
	"strings"
)

// Secret names the source of a secret: an environment variable or a file. The secret itself
// is not a setting and is never shown.
type Secret struct {
	Env  string // name of the variable
	File string

	value string // value of Env, or the text that File will contain
	held  bool   // set by Hold
}

// Hold makes [Secret.Get] return text, before the file of the secret is written.
func (s *Secret) Hold(text string) { s.value, s.held = text, true }

// Settings returns the keys NAME_env and NAME_file. missing is the text of the error if not exactly one of them is
// set; if missing is "", both may be absent.
func (s *Secret) Settings(name, what, missing string) []Setting {
	return []Setting{
		{Key: name + "_env", Doc: "Environment variable of the server that holds " + what + ".", Value: Text(&s.Env),
			Secret: s, Missing: missing},
		{Key: name + "_file", Doc: "File that holds it instead, readable only by its owner.", Value: Text(&s.File), Secret: s,
			Missing: missing},
	}
}

// IsSet reports whether the secret has a source.
func (s *Secret) IsSet() bool { return s.Env != "" || s.File != "" }

// Ambiguous reports whether the secret has two sources.
func (s *Secret) Ambiguous() bool { return s.Env != "" && s.File != "" }

// Read reads the secret from the environment, and returns a warning if its file is readable
// by other users.
func (s *Secret) Read(env func(string) string) (warning string) {
	if s.File == "" {
		if s.Env != "" {
			s.value = strings.TrimSpace(env(s.Env))
		}
		return ""
	}
	if info, err := os.Stat(s.File); err == nil && info.Mode().Perm()&0o077 != 0 {
		return fmt.Sprintf("other users can read the token in %s: chmod 600 %s", s.File, s.File)
	}
	return ""
}

// Get returns the held value, else the value that Read read from the environment, or the
// current content of the file.
func (s *Secret) Get() (string, error) {
	if s.held {
		return s.value, nil
	}
	if s.File == "" {
		if s.value == "" {
			return "", fmt.Errorf("missing token: environment variable %s is not set", s.Env)
		}
		return s.value, nil
	}
	raw, err := ReadFile(s.File)
	if err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	token := strings.TrimSpace(string(raw))
	if token == "" {
		return "", fmt.Errorf("missing token: the file %s is empty", s.File)
	}
	return token, nil
}
