package operate

import (
	"strings"

	"mailroom/server/internal/request"
)

// Filter describes the filter of a list, for the manual.
type Filter struct {
	Name  string      // of the list
	Where string      // requests and commands that take it, as Markdown
	Keys  [][2]string // each key, with the values that it takes
}

// Filters returns the filters of all lists, as the requests parse them.
func Filters() []Filter {
	return []Filter{
		{"Runs", "`GET /v1/runs`, `mailroom runs`, `failures`, `run cancel`, `run retry`", keysOf(runKeys())},
		{"Threads", "`GET /v1/threads`, `mailroom threads`", keysOf(threadKeys())},
		{"Tickets", "`GET /v1/tickets`, `mailroom tickets`", keysOf(ticketKeys())},
		{"The audit log", "`GET /v1/audit`, `mailroom audit`", keysOf(auditKeys())},
	}
}

func keysOf(keys []request.FilterKey) (all [][2]string) {
	for _, k := range keys {
		takes := "a name"
		switch {
		case len(k.Values) > 0:
			takes = "`" + strings.Join(k.Values, "`, `") + "`"
		case k.Kind == request.KindTime:
			takes = "a day or a time, a comparison, or a range"
		case k.Kind == request.KindText:
			takes = "a text, found anywhere"
		}
		all = append(all, [2]string{strings.Replace(k.Name, ".*", ".NAME", 1), takes})
	}
	return all
}
