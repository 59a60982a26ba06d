package config

import (
	"fmt"
	"os"
	"strings"
)

// Secret says where a secret is: in a variable of the server, or in a file. The secret
// itself is no setting, and is never shown.
type Secret struct {
	Env  string // name of the variable
	File string

	value string // of Env
}

// settings are its keys, NAME_env and NAME_file.
func (s *Secret) settings(name, what string) []setting {
	return []setting{
		{name + "_env", "Variable of the server that holds " + what + ".", text(&s.Env)},
		{name + "_file", "File that holds it instead, for its owner only.", text(&s.File)},
	}
}

// IsSet reports whether it is said where the secret is.
func (s *Secret) IsSet() bool { return s.Env != "" || s.File != "" }

// ambiguous reports whether it is said to be in two places.
func (s *Secret) ambiguous() bool { return s.Env != "" && s.File != "" }

// read takes it from the environment, and returns what is to be warned of.
func (s *Secret) read(env func(string) string) (warning string) {
	if s.File == "" {
		if s.Env != "" {
			s.value = strings.TrimSpace(env(s.Env))
		}
		return ""
	}
	if info, err := os.Stat(s.File); err == nil && info.Mode().Perm()&0o077 != 0 {
		return fmt.Sprintf("others may read the token in %s: chmod 600 %s", s.File, s.File)
	}
	return ""
}

// Get is what ReadTokens took from the environment, or what is in the file now.
func (s *Secret) Get() (string, error) {
	if s.File == "" {
		if s.value == "" {
			return "", fmt.Errorf("there is no token: the variable %s is not set", s.Env)
		}
		return s.value, nil
	}
	raw, err := os.ReadFile(s.File)
	if err != nil {
		return "", fmt.Errorf("there is no token: %w", err)
	}
	token := strings.TrimSpace(string(raw))
	if token == "" {
		return "", fmt.Errorf("there is no token: the file %s is empty", s.File)
	}
	return token, nil
}
