// Package lazyregexp compiles regular expressions at their first use. A package variable with regexp.MustCompile is
// compiled at the start of each process. All of them together took a third of the time of a command such as `bd
// list`, which uses no regular expression.
package lazyregexp

import (
	"regexp"
	"sync"
)

// New returns a function that compiles a regular expression at its first call and returns it. That call panics if the
// expression is not valid.
func New(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
