package setting

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// TOML formats a value that [Value].Get returned.
func TOML(v any) string {
	switch v := v.(type) {
	case string:
		return quote(v)
	case []string:
		texts := make([]string, len(v))
		for i, s := range v {
			texts[i] = quote(s)
		}
		return "[" + strings.Join(texts, ", ") + "]"
	case []int:
		texts := make([]string, len(v))
		for i, n := range v {
			texts[i] = strconv.Itoa(n)
		}
		return "[" + strings.Join(texts, ", ") + "]"
	case map[string]string:
		return inline(v)
	case map[string]any:
		return inline(v)
	}
	return fmt.Sprint(v)
}

// inline formats a table.
func inline[V any](table map[string]V) string {
	var texts []string
	for _, k := range slices.Sorted(maps.Keys(table)) {
		texts = append(texts, TOMLKey(k)+" = "+TOML(table[k]))
	}
	if len(texts) == 0 {
		return "{}"
	}
	return "{ " + strings.Join(texts, ", ") + " }"
}

// TOMLKey formats a key.
func TOMLKey(k string) string {
	bare := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_'
	}
	if k != "" && !strings.ContainsFunc(k, func(r rune) bool { return !bare(r) }) {
		return k
	}
	return quote(k)
}

// quote quotes s. TOML has Go's escapes except \a, \v and \x.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x20 || r == 0x7f:
			b.WriteString(`\u00` + strconv.FormatInt(0x100+int64(r), 16)[1:])
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
