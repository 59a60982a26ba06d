package cli

import "fmt"

func orDash(s *string) string {
	if s == nil || *s == "" {
		return "-"
	}
	return *s
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// pluralize formats a count with its noun.
func pluralize(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
