package config

import (
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"mailroom/alert/target"
	"mailroom/internal/display"
	"mailroom/internal/setting"
)

// Variable returns the environment variable that overrides a setting, given its dotted key:
// MAILROOM_LIMITS_BODY for limits.body. Characters other than letters and digits become underscores.
func Variable(key string) string {
	plain := func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}
	return "MAILROOM_" + strings.ToUpper(strings.Map(plain, key))
}

// override sets the keys of doc that variables name, and returns the variables by dotted key. The
// kinds of agents and channels come from the file only, because they decide which keys exist.
func override(doc map[string]any, env func(string) string, kinds *target.Kinds) map[string]string {
	from := map[string]string{}
	if env == nil {
		return from
	}
	trial := reader{config: Default(kinds)} // knows the keys; its values and problems do not matter
	trial.top(doc)
	for _, section := range trial.config.allSections() {
		for _, s := range section.settings {
			key := strings.Join(append(section.path, s.Key), ".")
			value := env(Variable(key))
			if value == "" || s.Key == "kind" && len(section.path) == 2 {
				continue
			}
			if table := tableAt(doc, section.path); table != nil {
				table[s.Key] = typed(s, value)
				from[key] = Variable(key)
			}
		}
	}
	return from
}

// otherVariables are the variables that override no setting: they are for commands or for the programs of agents.
func otherVariables() []string {
	return []string{
		"MAILROOM_DATA", "MAILROOM_URL", "MAILROOM_TOKEN", "MAILROOM_CA", "MAILROOM_CONTEXT", "MAILROOM_INBOX",
		"MAILROOM_RUN", "MAILROOM_THREAD", "MAILROOM_ATTEMPT", "MAILROOM_IDEMPOTENCY_KEY", "MAILROOM_MARK",
	}
}

// UnknownVariables returns a warning about each variable of an environment ("NAME=value") that looks like one of
// Mailroom and has no effect. An unknown key of the file is an error; an unknown variable is only a warning, because
// other programs and other versions share the environment.
func (c *Config) UnknownVariables(environ []string) (warnings []string) {
	known := slices.Concat(otherVariables(), c.SecretVariables())
	for _, section := range c.allSections() {
		for _, s := range section.settings {
			known = append(known, Variable(strings.Join(append(section.path, s.Key), ".")))
		}
	}
	for _, a := range c.Agents {
		known = append(known, a.EnvAllow...)
	}
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		if value == "" || !strings.HasPrefix(name, "MAILROOM_") || slices.Contains(known, name) || forTests(name) {
			continue
		}
		warning := name + " has no effect: Mailroom knows no such variable"
		if near := display.Suggest(name, known); near != "" {
			warning += "; did you mean " + near + "?"
		}
		warnings = append(warnings, warning)
	}
	slices.Sort(warnings)
	return warnings
}

// forTests reports whether only builds for tests read the variable name.
func forTests(name string) bool {
	return strings.HasPrefix(name, "MAILROOM_TEST_")
}

// tableAt returns the table at a path of doc, which it creates if it is missing, or nil if the path has a value that
// is no table.
func tableAt(doc map[string]any, path []string) map[string]any {
	for _, name := range path {
		if doc[name] == nil {
			doc[name] = map[string]any{}
		}
		table, ok := doc[name].(map[string]any)
		if !ok {
			return nil
		}
		doc = table
	}
	return doc
}

// typed returns the value of a variable: a text if the setting takes it, otherwise a TOML value such as
// 5, true or ["a", "b"].
func typed(s setting.Setting, value string) any {
	if s.Value.Set(value) == nil || strings.ContainsAny(value, "\r\n") {
		return value
	}
	var doc struct{ Value any }
	if toml.Unmarshal([]byte("Value = "+value), &doc) != nil {
		return value
	}
	return doc.Value
}
