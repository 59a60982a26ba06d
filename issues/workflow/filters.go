package workflow

import (
	"errors"
	"fmt"
	"html"
	"maps"
	"math"
	"net/url"
	"slices"
	"strings"
)

// filter computes a value from another one and arguments. It returns a text longer than maxOutput, or a list longer
// than maxList, only if its input is about as long.
type filter func(v any, args []any) (any, error)

var errArguments = errors.New("wrong number of arguments")

// filterNames returns the names of the filters, sorted.
func filterNames() []string { return slices.Sorted(maps.Keys(filters())) }

// filters returns the known filters by name.
func filters() map[string]filter {
	all := map[string]filter{
		"default": func(v any, args []any) (any, error) {
			if len(args) != 1 {
				return nil, errArguments
			}
			if !isTrue(v) || v == "" || sizeOf(v) == 0 {
				return args[0], nil
			}
			return v, nil
		},
		"size": func(v any, args []any) (any, error) {
			if s, is := v.(string); is {
				return len([]rune(s)), nil
			}
			return max(sizeOf(v), 0), nil
		},
	}
	for name, f := range textFilters() {
		all[name] = func(v any, args []any) (any, error) {
			texts := make([]string, len(args))
			for i, arg := range args {
				texts[i] = toText(arg)
			}
			return f(toText(v), texts)
		}
	}
	maps.Copy(all, listFilters())
	maps.Copy(all, numberFilters())
	return all
}

type textFilter = func(s string, args []string) (any, error)

// plain makes a filter of a function without arguments.
func plain(f func(string) string) textFilter {
	return func(s string, args []string) (any, error) {
		if len(args) > 0 {
			return nil, errArguments
		}
		return f(s), nil
	}
}

// replacing makes a filter that replaces the first n occurrences, all for -1.
func replacing(n, arguments int) textFilter {
	return func(s string, args []string) (any, error) {
		if len(args) != arguments {
			return nil, errArguments
		}
		with := ""
		if arguments > 1 {
			with = args[1]
		}
		if count := strings.Count(s, args[0]); n < 0 && len(s)+count*len(with) > maxOutput {
			return nil, fmt.Errorf("the text has more than %d bytes", maxOutput)
		}
		return strings.Replace(s, args[0], with, n), nil
	}
}

func textFilters() map[string]textFilter {
	const space = " \t\r\n\f\v"
	return map[string]textFilter{
		"append":     joining(func(s, other string) string { return s + other }),
		"prepend":    joining(func(s, other string) string { return other + s }),
		"downcase":   plain(strings.ToLower),
		"upcase":     plain(strings.ToUpper),
		"capitalize": plain(capitalize),
		"strip":      plain(func(s string) string { return strings.Trim(s, space) }),
		"lstrip":     plain(func(s string) string { return strings.TrimLeft(s, space) }),
		"rstrip":     plain(func(s string) string { return strings.TrimRight(s, space) }),
		"strip_newlines": plain(func(s string) string {
			return strings.NewReplacer("\r\n", "", "\n", "").Replace(s)
		}),
		"newline_to_br": plain(func(s string) string { return strings.ReplaceAll(s, "\n", "<br />\n") }),
		"escape":        plain(html.EscapeString),
		"url_encode":    plain(url.QueryEscape),
		"replace":       replacing(-1, 2),
		"replace_first": replacing(1, 2),
		"remove":        replacing(-1, 1),
		"remove_first":  replacing(1, 1),
		"truncate":      truncate,
		"split": func(s string, args []string) (any, error) {
			if len(args) != 1 {
				return nil, errArguments
			}
			parts := strings.SplitN(s, args[0], maxList+1)
			list := make([]any, len(parts))
			for i, part := range parts {
				list[i] = part
			}
			if s == "" {
				list = list[:0]
			}
			return list, nil
		},
	}
}

func joining(f func(s, other string) string) textFilter {
	return func(s string, args []string) (any, error) {
		if len(args) != 1 {
			return nil, errArguments
		}
		return f(s, args[0]), nil
	}
}

func capitalize(s string) string {
	r := []rune(strings.ToLower(s))
	if len(r) == 0 {
		return ""
	}
	return strings.ToUpper(string(r[0])) + string(r[1:])
}

// truncate cuts a text to a number of characters, 50 by default, with the mark at its end.
func truncate(s string, args []string) (any, error) {
	most, mark := 50, "..."
	if len(args) > 2 {
		return nil, errArguments
	}
	if len(args) > 0 {
		most = toInt(args[0])
	}
	if len(args) > 1 {
		mark = args[1]
	}
	r := []rune(s)
	if len(r) <= most {
		return s, nil
	}
	return string(r[:max(most-len([]rune(mark)), 0)]) + mark, nil
}

// lists makes a filter of lists. A single value is a list with it, and nil an empty list.
func lists(arguments int, f func(list []any, args []any) (any, error)) filter {
	return func(v any, args []any) (any, error) {
		if len(args) != arguments {
			return nil, errArguments
		}
		list, is := v.([]any)
		if !is && v != nil {
			list = []any{v}
		}
		return f(list, args)
	}
}

func listFilters() map[string]filter {
	one := func(at func(n int) int) filter {
		return lists(0, func(list, _ []any) (any, error) {
			if len(list) == 0 {
				return nil, nil
			}
			return list[at(len(list))], nil
		})
	}
	return map[string]filter{
		"first": one(func(int) int { return 0 }),
		"last":  one(func(n int) int { return n - 1 }),
		"join":  join,
		"reverse": lists(0, func(list, _ []any) (any, error) {
			list = slices.Clone(list)
			slices.Reverse(list)
			return list, nil
		}),
		"compact": lists(0, func(list, _ []any) (any, error) {
			return slices.DeleteFunc(slices.Clone(list), func(v any) bool { return v == nil }), nil
		}),
		"concat": lists(1, func(list, args []any) (any, error) {
			more, is := args[0].([]any)
			if !is {
				return nil, errors.New("the argument is no list")
			}
			return slices.Concat(list, more), nil
		}),
		"sort": lists(0, func(list, _ []any) (any, error) {
			list = slices.Clone(list)
			slices.SortStableFunc(list, func(a, b any) int {
				if less, err := compare(a, b, "<"); err == nil && less {
					return -1
				}
				return strings.Compare(toText(a), toText(b))
			})
			return list, nil
		}),
		"uniq": lists(0, func(list, _ []any) (any, error) {
			seen := map[string]bool{}
			return slices.DeleteFunc(slices.Clone(list), func(v any) bool {
				had := seen[toText(v)]
				seen[toText(v)] = true
				return had
			}), nil
		}),
		"map": lists(1, func(list, args []any) (any, error) {
			out := make([]any, len(list))
			for i, v := range list {
				var err error
				if out[i], err = element(v, toText(args[0]), "an element"); err != nil {
					return nil, err
				}
			}
			return out, nil
		}),
		"where": lists(2, func(list, args []any) (any, error) {
			var out []any
			for _, v := range list {
				is, err := element(v, toText(args[0]), "an element")
				if err != nil {
					return nil, err
				}
				if equal(is, args[1]) {
					out = append(out, v)
				}
			}
			return out, nil
		}),
	}
}

func join(v any, args []any) (any, error) {
	if len(args) > 1 {
		return nil, errArguments
	}
	between := " "
	if len(args) == 1 {
		between = toText(args[0])
	}
	list, is := v.([]any)
	if !is {
		return toText(v), nil
	}
	var b strings.Builder
	for i, one := range list {
		if i > 0 {
			b.WriteString(between)
		}
		if b.WriteString(toText(one)); b.Len() > maxOutput {
			break // the caller refuses it
		}
	}
	return b.String(), nil
}

// numberFilters returns the filters that compute with two numbers, or one.
func numberFilters() map[string]filter {
	all := map[string]filter{}
	for name, f := range map[string]func(a, b float64) float64{
		"plus": func(a, b float64) float64 { return a + b }, "minus": func(a, b float64) float64 { return a - b },
		"times": func(a, b float64) float64 { return a * b }, "modulo": math.Mod,
	} {
		all[name] = func(v any, args []any) (any, error) {
			if len(args) != 1 {
				return nil, errArguments
			}
			a, first := toNumber(v)
			b, second := toNumber(args[0])
			if !first || !second || name == "modulo" && b == 0 {
				return nil, fmt.Errorf("cannot compute with %s and %s", shown(v), shown(args[0]))
			}
			return whole(f(a, b)), nil
		}
	}
	for name, f := range map[string]func(float64) float64{"abs": math.Abs, "ceil": math.Ceil, "floor": math.Floor,
		"round": math.Round} {
		all[name] = func(v any, args []any) (any, error) {
			n, is := toNumber(v)
			if !is || len(args) > 0 {
				return nil, fmt.Errorf("%s is no number", shown(v))
			}
			return whole(f(n)), nil
		}
	}
	return all
}

// whole returns an int for a number without a fraction.
func whole(f float64) any {
	if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		return int(f)
	}
	return f
}
