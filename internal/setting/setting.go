// Package setting declares the keys of a configuration: each is a name, its documentation, and a
// typed value that it is bound to.
package setting

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Setting is one key of a table of the configuration.
type Setting struct {
	Key    string
	Doc    string
	Value  Value
	Secret *Secret // secret whose source the key names, or nil
	// Missing is the text of the error if the setting is not set. If it is "", the setting is optional.
	Missing string

	files func() []string // see SecretFiles; nil: none
}

// New returns a setting that is bound to v.
func New(key, doc string, v Value) Setting { return Setting{Key: key, Doc: doc, Value: v} }

// SecretFile returns a setting that is the path of a file with a secret.
func SecretFile(key, doc string, p *string) Setting {
	return New(key, doc, Text(p)).WithSecretFiles(func() []string { return []string{*p} })
}

// WithSecretFiles returns the setting with a function that [Setting.SecretFiles] calls. files returns the paths of
// all files with secrets that the present value of the setting names, such as the value itself.
func (s Setting) WithSecretFiles(files func() []string) Setting {
	s.files = files
	return s
}

// SecretFiles returns the paths of the files with secrets that the value names. Some may be "".
func (s Setting) SecretFiles() (files []string) {
	if s.Secret != nil {
		files = append(files, s.Secret.File)
	}
	if s.files != nil {
		files = append(files, s.files()...)
	}
	return files
}

// Require returns the setting as one that must be set. missing is the text of the error if it is not set.
func (s Setting) Require(missing string) Setting {
	s.Missing = missing
	return s
}

// CheckRequired returns an error unless all required settings are set.
func CheckRequired(settings []Setting) error {
	for _, s := range settings {
		switch {
		case s.Missing == "":
		case s.Secret != nil && (!s.Secret.IsSet() || s.Secret.Ambiguous()), s.Secret == nil && isEmpty(s.Value.Get()):
			return errors.New(s.Missing)
		}
	}
	return nil
}

// isEmpty reports whether a value is an empty text or list.
func isEmpty(v any) bool {
	list, isList := v.([]string)
	return v == "" || isList && len(list) == 0
}

// Value gives access to a typed setting. Set stores a decoded TOML value; its error shows
// the value and the allowed values. Get returns a value that can be encoded as JSON and
// TOML.
type Value struct {
	Set func(v any) error
	Get func() any
}

// Invalid returns an error that shows a value and the allowed ones.
func Invalid(v any, allowed string) error {
	shown := fmt.Sprintf("%v", v)
	if s, ok := v.(string); ok {
		shown = strconv.Quote(s)
	}
	if r := []rune(shown); len(r) > 60 {
		shown = string(r[:60]) + "…"
	}
	return fmt.Errorf("%s is not %s", shown, allowed)
}

// Of is a value of type T. decode reports whether a decoded TOML value is valid, and allowed
// describes the valid ones. encode returns what the value is in TOML and JSON.
func Of[T any](p *T, allowed string, decode func(v any) (T, bool), encode func(T) any) Value {
	return Value{
		Set: func(v any) error {
			t, ok := decode(v)
			if !ok {
				return Invalid(v, allowed)
			}
			*p = t
			return nil
		},
		Get: func() any { return encode(*p) },
	}
}

// Duration returns the Value of a duration in *p, from least to most.
func Duration(p *time.Duration, least, most time.Duration) Value {
	allowed := fmt.Sprintf("a duration from %s to %s, such as %q", FormatDuration(least), FormatDuration(most), "1m30s")
	return Of(p, allowed, func(v any) (time.Duration, bool) {
		s, isText := v.(string)
		d, err := time.ParseDuration(s)
		return d, isText && err == nil && d >= least && d <= most
	}, func(d time.Duration) any { return FormatDuration(d) })
}

// FormatDuration formats a duration without zero units: 1h, not 1h0m0s.
func FormatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Int returns the Value of a whole number in *p, from least to most.
func Int(p *int, least, most int) Value {
	return Of(p, fmt.Sprintf("a whole number from %d to %d", least, most), func(v any) (int, bool) {
		n, ok := v.(int64)
		return int(n), ok && n >= int64(least) && n <= int64(most)
	}, func(n int) any { return n })
}

// Number returns the Value of a number in *p, from least to most.
func Number(p *float64, least, most int) Value {
	return Of(p, fmt.Sprintf("a number from %d to %d", least, most), func(v any) (n float64, ok bool) {
		switch v := v.(type) {
		case int64:
			n, ok = float64(v), true
		case float64:
			n, ok = v, true
		}
		return n, ok && n >= float64(least) && n <= float64(most)
	}, func(n float64) any { return n })
}

// Bool returns the Value of a boolean in *p.
func Bool(p *bool) Value {
	return Of(p, "true or false", func(v any) (is, ok bool) { is, ok = v.(bool); return is, ok }, func(is bool) any {
		return is
	})
}

// Not returns the Value of a boolean that is stored negated in *p.
func Not(p *bool) Value {
	return Of(p, "true or false", func(v any) (is, ok bool) { is, ok = v.(bool); return !is, ok }, func(is bool) any {
		return !is
	})
}

// Text returns the Value of a string in *p without control characters.
func Text(p *string) Value {
	return Checked(p, "a string without control characters", func(s string) bool {
		return !strings.ContainsFunc(s, unicode.IsControl)
	})
}

// AgentName returns the Value of an agent's name in *p.
func AgentName(p *string) Value { return Checked(p, "an agent name", ValidName) }

// ValidName reports whether s can name an agent or a channel. Names appear in URLs, filters
// and tables.
func ValidName(s string) bool {
	plain := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("._-", r)
	}
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) })
}

// OneOf returns the Value of a string in *p that is one of allowed.
func OneOf[S ~string](p *S, allowed ...S) Value {
	words := make([]string, len(allowed))
	for i, s := range allowed {
		words[i] = string(s)
	}
	return Of(p, "one of "+strings.Join(words, ", "), func(v any) (S, bool) {
		s, isText := v.(string)
		return S(s), isText && slices.Contains(words, s)
	}, func(s S) any { return string(s) })
}

// Either returns the Value of a boolean in *p that is written as one of two words: no stands for false, yes for true.
func Either(p *bool, no, yes string) Value {
	return Of(p, "one of "+no+", "+yes, func(v any) (is, ok bool) {
		return v == yes, v == yes || v == no
	}, func(is bool) any {
		if is {
			return yes
		}
		return no
	})
}

// ParseBaseURL parses the base URL of a service. example is a valid one.
func ParseBaseURL(s, example string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimRight(s, "/"))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" ||
		u.Fragment != "" {
		return nil, errors.New("not a base URL: use one such as " + example + ", without credentials, query or fragment")
	}
	return u, nil
}

// BaseURL returns the Value of the base URL of a service in *p. Errors do not show a URL that contains a password.
func BaseURL(p *string) Value {
	v := Checked(p, `an address, such as "https://platform.example.org"`, func(s string) bool {
		_, err := ParseBaseURL(s, "")
		return err == nil
	})
	set := v.Set
	v.Set = func(given any) error {
		if s, ok := given.(string); ok && strings.Contains(s, "@") {
			given = "…@…"
		}
		return set(given)
	}
	return v
}

// Checked returns the Value of a string in *p that ok accepts. allowed describes such strings.
func Checked(p *string, allowed string, ok func(string) bool) Value {
	return Of(p, allowed, func(v any) (string, bool) {
		s, isText := v.(string)
		return s, isText && ok(s)
	}, func(s string) any { return s })
}

// List returns the Value of a list of strings in *p.
func List(p *[]string) Value { return Each(p, "", func(string) bool { return true }) }

// Each returns the Value of a list in *p, of strings that ok accepts. allowed describes such a string.
func Each(p *[]string, allowed string, ok func(string) bool) Value {
	const list = `a list of strings, such as ["a", "b"]`
	return Value{
		Set: func(v any) error {
			texts, isTexts := v.([]string)
			items, isList := v.([]any)
			if !isTexts && !isList {
				return Invalid(v, list)
			}
			for _, item := range items {
				s, isText := item.(string)
				if !isText {
					return Invalid(item, list)
				}
				texts = append(texts, s)
			}
			for _, s := range texts {
				switch {
				case strings.ContainsRune(s, 0):
					return Invalid(s, list)
				case !ok(s):
					return Invalid(s, allowed)
				}
			}
			*p = texts
			return nil
		},
		Get: func() any { return append([]string{}, *p...) },
	}
}
