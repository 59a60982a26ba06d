package config

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// setting is one key of a table, with its documentation and its value.
type setting struct {
	key   string
	doc   string
	value value
}

// value gives access to a typed setting. set stores a decoded TOML value; its error shows
// the value and the allowed values. get returns a value that can be encoded as JSON and
// TOML.
type value struct {
	set func(v any) error
	get func() any
}

func invalidValue(v any, allowed string) error {
	shown := fmt.Sprintf("%v", v)
	if s, ok := v.(string); ok {
		shown = strconv.Quote(s)
	}
	if r := []rune(shown); len(r) > 60 {
		shown = string(r[:60]) + "…"
	}
	return fmt.Errorf("%s is not %s", shown, allowed)
}

func duration(p *time.Duration, least, most time.Duration) value {
	allowed := fmt.Sprintf("a duration from %s to %s, such as %q", formatDuration(least), formatDuration(most), "1m30s")
	return value{
		set: func(v any) error {
			s, ok := v.(string)
			if !ok {
				return invalidValue(v, allowed)
			}
			d, err := time.ParseDuration(s)
			if err != nil || d < least || d > most {
				return invalidValue(v, allowed)
			}
			*p = d
			return nil
		},
		get: func() any { return formatDuration(*p) },
	}
}

func number(p *int, least, most int) value {
	return value{
		set: func(v any) error {
			n, ok := v.(int64)
			if !ok || n < int64(least) || n > int64(most) {
				return invalidValue(v, fmt.Sprintf("a whole number from %d to %d", least, most))
			}
			*p = int(n)
			return nil
		},
		get: func() any { return *p },
	}
}

func text(p *string) value {
	return checked(p, "a string without control characters", func(s string) bool {
		return !strings.ContainsFunc(s, unicode.IsControl)
	})
}

func name(p *string) value {
	return checked(p, "an agent name", validName)
}

// validName reports whether s can name an agent or a channel. Names appear in URLs, filters
// and tables.
func validName(s string) bool {
	plain := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("._-", r)
	}
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) })
}

func address(p *string) value {
	return checked(p, `HOST:PORT, such as "127.0.0.1:8420"`, func(s string) bool {
		host, port, err := net.SplitHostPort(s)
		if err != nil || strings.ContainsFunc(host, unicode.IsSpace) {
			return false
		}
		n, err := strconv.ParseUint(port, 10, 16)
		return err == nil && strconv.FormatUint(n, 10) == port
	})
}

func oneOf(p *string, allowed ...string) value {
	return checked(p, "one of "+strings.Join(allowed, ", "), func(s string) bool { return slices.Contains(allowed, s) })
}

func checked(p *string, allowed string, ok func(string) bool) value {
	return value{
		set: func(v any) error {
			s, isText := v.(string)
			if !isText || !ok(s) {
				return invalidValue(v, allowed)
			}
			*p = s
			return nil
		},
		get: func() any { return *p },
	}
}

func level(p *slog.Level) value {
	known := map[string]slog.Level{
		"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
	}
	return value{
		set: func(v any) error {
			s, isText := v.(string)
			l, ok := known[s]
			if !isText || !ok {
				return invalidValue(v, "one of debug, info, warn, error")
			}
			*p = l
			return nil
		},
		get: func() any { return strings.ToLower(p.String()) },
	}
}

func list(p *[]string) value {
	const allowed = `a list of strings, such as ["a", "b"]`
	return value{
		set: func(v any) error {
			items, ok := v.([]any)
			if !ok {
				return invalidValue(v, allowed)
			}
			texts := make([]string, len(items))
			for i, item := range items {
				if texts[i], ok = item.(string); !ok || strings.ContainsRune(texts[i], 0) {
					return invalidValue(item, allowed)
				}
			}
			*p = texts
			return nil
		},
		get: func() any { return append([]string{}, *p...) },
	}
}

// pairs is a table of environment variables. Its errors never show a value, because
// variables can hold secrets.
func pairs(p *map[string]string) value {
	return value{
		set: func(v any) error {
			table, ok := v.(map[string]any)
			if !ok {
				return fmt.Errorf(`not a table of strings, such as { NAME = "value" }`)
			}
			texts := make(map[string]string, len(table))
			for _, k := range sorted(table) {
				s, ok := table[k].(string)
				if !ok || k == "" || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(s, 0) {
					return fmt.Errorf("invalid variable %q: use a name without = and a string without NUL", k)
				}
				texts[k] = s
			}
			*p = texts
			return nil
		},
		get: func() any {
			got := map[string]string{} // never nil: a missing and an empty table are the same definition
			maps.Copy(got, *p)
			return got
		},
	}
}

// formatDuration formats a duration without zero units: 1h, not 1h0m0s.
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func sorted[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
