package endpoint

import (
	"fmt"
	"strings"

	"mailroom/internal/display"
)

// MistypedVariables returns a warning for each variable of an environment ("NAME=value") whose name is similar to a
// variable that names a server. A command would silently talk to another server than the user meant.
func MistypedVariables(environ []string) (warnings []string) {
	const prefix = "MAILROOM_"
	known := map[string]bool{"DATA": true, "URL": true, "TOKEN": true, "CA": true, "CONTEXT": true}
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		rest, ours := strings.CutPrefix(name, prefix)
		if !ours || value == "" || known[rest] {
			continue
		}
		if near := display.Suggest(rest, []string{"DATA", "URL", "TOKEN", "CA", "CONTEXT"}); near != "" {
			warnings = append(warnings, fmt.Sprintf("%s has no effect: Mailroom knows no such variable; did you mean %s?",
				name, prefix+near))
		}
	}
	return warnings
}
