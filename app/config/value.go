package config

import (
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"mailroom/internal/budget"
	"mailroom/internal/setting"
)

func address(p *string) setting.Value {
	return setting.Checked(p, `HOST:PORT, such as "127.0.0.1:8420"`, func(s string) bool {
		host, port, err := net.SplitHostPort(s)
		if err != nil || strings.ContainsFunc(host, unicode.IsSpace) {
			return false
		}
		n, err := strconv.ParseUint(port, 10, 16)
		return err == nil && strconv.FormatUint(n, 10) == port
	})
}

func level(p *slog.Level) setting.Value {
	known := map[string]slog.Level{
		"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
	}
	return setting.Of(p, "one of debug, info, warn, error", func(v any) (slog.Level, bool) {
		s, isText := v.(string)
		l, ok := known[s]
		return l, isText && ok
	}, func(l slog.Level) any { return strings.ToLower(l.String()) })
}

// pairs is the value of a setting that is a table of environment variables. Its errors never show a value, because
// variables can hold secrets.
func pairs(p *map[string]string) setting.Value {
	return setting.Value{
		Set: func(v any) error {
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
		Get: func() any {
			got := map[string]string{} // never nil: a missing and an empty table are the same definition
			maps.Copy(got, *p)
			return got
		},
	}
}

// exits is the value of a setting that lists the exit statuses of a failure.
func exits(p *[]int) setting.Value {
	return setting.Of(p, "a list of exit statuses from 1 to 255, such as [78]", func(v any) ([]int, bool) {
		list, ok := v.([]any)
		found := []int{}
		for _, item := range list {
			n, isInt := item.(int64)
			ok = ok && isInt && n >= 1 && n <= 255
			found = append(found, int(n))
		}
		return found, ok
	}, func(all []int) any { return append([]int{}, all...) })
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// budgets is the value of a setting that is a table of budgets by their period.
func budgets(p *budget.Limits) setting.Value {
	return setting.Value{
		Set: func(v any) error {
			table, ok := v.(map[string]any)
			if !ok {
				return fmt.Errorf(`not a table of budgets, such as { day = "5usd", month = "100usd" }`)
			}
			var limits budget.Limits
			for _, period := range sorted(table) {
				text, ok := table[period].(string)
				if !ok {
					return fmt.Errorf(`budget of a %s: not a text such as "5usd" or "2m tokens"`, period)
				}
				if err := limits.Set(period, text); err != nil {
					return err
				}
			}
			*p = limits
			return nil
		},
		Get: func() any {
			out := map[string]any{}
			for name, text := range p.Texts() {
				out[name] = text
			}
			return out
		},
	}
}
