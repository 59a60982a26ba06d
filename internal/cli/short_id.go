package cli

import (
	"context"
	"regexp"
	"strings"

	"mailroom/client"
	"mailroom/internal/console"
)

// shortID matches the end of an id, as long as the console shows it or shorter, but not a whole id.
var shortID = regexp.MustCompile(`^[0-9a-f-]{4,35}$`) // archtest: a constant

// shortPages bounds the pages of runs that are searched for a short id.
const shortPages = 5

// resolveRun returns the id of the run that an argument names: a whole id, or its end if only one of the
// newest runs has it. Any other argument is returned unchanged.
func resolveRun(ctx context.Context, c *client.Client, arg string) (string, error) {
	if !shortID.MatchString(arg) {
		return arg, nil
	}
	var found []string
	q := client.ListQuery{Q: "id:*" + strings.TrimPrefix(arg, "-"), Limit: 5}
	for range shortPages {
		page, err := c.Runs(ctx, q)
		if err != nil {
			return "", err
		}
		for _, r := range page.Items {
			found = append(found, r.ID)
		}
		if page.Next == nil || len(found) > 1 {
			break
		}
		q.Cursor = *page.Next
	}
	switch len(found) {
	case 0:
		return arg, nil // the server says that there is none
	case 1:
		return found[0], nil
	}
	return "", console.Errorf(console.ExitUsage, "", "several runs end in %q: %s", arg, strings.Join(found, ", "))
}
