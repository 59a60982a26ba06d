package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/api"
)

// filterTerms returns the keys of --filter of a command, each with a colon, and those terms that have few values. It
// returns nothing for a command without --filter.
func filterTerms(command string) []string {
	runs := []string{"id:", "agent:", "owner:", "thread:", "parent:", "class:", "reason:", "error:", "group:",
		"key:", "mode:", "via:", "created:", "finished:", "metadata.", "delivery:yes", "delivery:no"}
	status := func(of ...mailroom.Status) []string { return terms("status", of) }
	switch command {
	case "runs":
		return append(status(mailroom.StatusQueued, mailroom.StatusRunning, mailroom.StatusWaiting,
			mailroom.StatusCompleted, mailroom.StatusFailed, mailroom.StatusCancelled), runs...)
	case "run cancel":
		return append(status(mailroom.StatusQueued, mailroom.StatusRunning, mailroom.StatusWaiting), runs...)
	case "run retry":
		return append(status(mailroom.StatusFailed, mailroom.StatusCancelled), runs...)
	case "failures":
		return runs
	case "audit":
		return []string{"actor:", "action:", "object:", "kind:", "thread:", "from:", "at:"}
	case "threads":
		return append(terms("status", []string{api.ThreadIdle, api.ThreadQueued, api.ThreadRunning, api.ThreadWaiting}),
			"id:", "agent:", "owner:", "updated:")
	case "tickets":
		return append(append(terms("state", []mailroom.TicketState{mailroom.TicketOpen, mailroom.TicketDecided,
			mailroom.TicketExpired, mailroom.TicketVoid}), terms("kind", []mailroom.TicketKind{mailroom.TicketApproval,
			mailroom.TicketInput, mailroom.TicketChildren, mailroom.TicketTimer, mailroom.TicketEvent})...),
			"id:", "thread:", "run:")
	}
	return nil
}

func terms[S ~string](key string, values []S) (all []string) {
	for _, v := range values {
		all = append(all, key+":"+string(v))
	}
	return all
}

// completeFilter completes the last term of a filter. A minus before it stays.
func completeFilter(known []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, begun string) (found []cobra.Completion, _ cobra.ShellCompDirective) {
		before, last := "", begun
		if i := strings.LastIndexByte(begun, ' '); i >= 0 {
			before, last = begun[:i+1], begun[i+1:]
		}
		if rest, ok := strings.CutPrefix(last, "-"); ok {
			before, last = before+"-", rest
		}
		for _, term := range known {
			if strings.HasPrefix(term, last) {
				found = append(found, before+term)
			}
		}
		return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace |
			cobra.ShellCompDirectiveKeepOrder
	}
}
