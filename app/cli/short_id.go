package cli

import (
	"cmp"
	"context"
	"strings"

	"mailroom"
	"mailroom/api"
	"mailroom/app/command"
	"mailroom/client"
	"mailroom/internal/lazyregexp"
)

// shortID matches the end of an id with at most as many characters as the console shows, but no whole id.
var shortID = lazyregexp.New(`^[0-9a-f-]{4,35}$`)

// shortPages bounds the pages of runs that are searched for a short id.
const shortPages = 5

// resolveRun returns the id of the run that an argument names: a whole id, or the end of an id if only one of the
// newest runs has this end. Any other argument is returned unchanged.
func resolveRun(ctx context.Context, c *client.Client, arg string) (string, error) {
	if !shortID().MatchString(arg) {
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
	return "", command.Errorf(command.ExitUsage, "", "several runs end in %q: %s", arg, strings.Join(found, ", "))
}

// resolveRunOf is [resolveRun] for an argument that may also be the id of a thread. pick then returns the id of the
// thread's run, or nil if there is none.
func resolveRunOf(ctx context.Context, c *client.Client, arg string, pick func(api.Thread) *string) (string, error) {
	id, err := resolveRun(ctx, c, arg)
	if err != nil || id != arg {
		return id, err
	}
	_, unknown := c.Run(ctx, arg)
	if mailroom.CodeOf(unknown) != mailroom.CodeNotFound {
		return arg, nil // the command says what is wrong with it
	}
	t, err := c.Thread(ctx, arg)
	if err != nil {
		return arg, nil // the server says that there is no such run
	}
	if run := pick(t); run != nil {
		return *run, nil
	}
	return "", mailroom.Errorf(mailroom.CodeConflict, "thread %q has no such run: list its runs with mailroom runs "+
		"--filter %s", t.ID, command.Quote("thread:"+client.Quote(t.ID)))
}

// currentRun returns the run of a thread that has started and not finished.
func currentRun(t api.Thread) *string { return cmp.Or(t.ActiveRun, t.WaitingRun) }

// currentOrLatestRun returns the current run of a thread, or else the one that was submitted last.
func currentOrLatestRun(t api.Thread) *string { return cmp.Or(t.ActiveRun, t.WaitingRun, t.LatestRun) }

// latestRun returns the run of a thread that was submitted last.
func latestRun(t api.Thread) *string { return t.LatestRun }
