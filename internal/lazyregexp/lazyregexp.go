// Package lazyregexp compiles regular expressions at their first use. A package variable with regexp.MustCompile is
// compiled at the start of each process: together they took a third of the time of a command such as `bd list`, which
// uses none of them.
package lazyregexp

import (
	"regexp"
	"sync"
)

// New returns a function that compiles a regular expression at its first call, and returns it. It panics then if the
// expression is not valid.
func New(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
