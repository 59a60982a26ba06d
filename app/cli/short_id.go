package cli

import (
	"cmp"
	"context"
	"strings"

	"mailroom"
	"mailroom/api"
	"mailroom/app/command"
	"mailroom/client"
	"mailroom/internal/display"
	"mailroom/internal/lazyregexp"
)

// shortID matches a part of an id, but no whole id. wholeID matches the ids that the server makes, and no name of a
// thread, except one that looks like them.
var (
	shortID = lazyregexp.New(`^[0-9a-f-]{4,35}$`)
	wholeID = lazyregexp.New(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
)

const (
	// minPrefix is the length of the shortest beginning of an id that stands for it.
	minPrefix = 6
	// shortPages bounds the pages of rows that are searched for a short id. One is enough for the beginning of an id and
	// a token that sees all threads.
	shortPages = 5
	// shownCandidates is how many of the ids with the same beginning an error shows.
	shownCandidates = 5
)

// candidate is an id that a short id may stand for.
type candidate struct{ id, about string }

// candidates lists one page of ids that match a query.
type candidates func(ctx context.Context, c *client.Client, q client.ListQuery) ([]candidate, *string, error)

func runCandidates(ctx context.Context, c *client.Client, q client.ListQuery) (all []candidate, _ *string, _ error) {
	page, err := c.Runs(ctx, q)
	for _, r := range page.Items {
		all = append(all, candidate{r.ID, string(r.Status) + " run of " + r.Agent + " in " + r.Thread})
	}
	return all, page.Next, err
}

func threadCandidates(ctx context.Context, c *client.Client, q client.ListQuery) (all []candidate, _ *string, _ error) {
	page, err := c.Threads(ctx, q)
	for _, t := range page.Items {
		all = append(all, candidate{t.ID, t.Status + " thread of " + t.Agent})
	}
	return all, page.Next, err
}

func ticketCandidates(ctx context.Context, c *client.Client, q client.ListQuery) (all []candidate, _ *string, _ error) {
	page, err := c.Tickets(ctx, q)
	for _, k := range page.Items {
		all = append(all, candidate{k.ID, ticketState(k) + " " + string(k.Kind) + " in " + k.Thread})
	}
	return all, page.Next, err
}

// resolveRun returns the id of the run that an argument names: a whole id, the beginning of an id, or the end of one
// (the console shows the ends) if only one of the newest runs has it. Any other argument is returned unchanged.
func resolveRun(ctx context.Context, c *client.Client, arg string) (string, error) {
	id, err := resolvePrefix(ctx, c, arg, "runs", runCandidates)
	if err != nil || id != arg || !shortID().MatchString(arg) {
		return id, err
	}
	return resolvePart(ctx, c, arg, "runs end in", "id:*"+strings.TrimPrefix(arg, "-"), runCandidates)
}

// resolveThread returns the id of the thread that an argument names: a whole id or name, or the beginning of an id that
// the server made. Names of threads are not shortened: one may begin with another.
func resolveThread(ctx context.Context, c *client.Client, arg string) (string, error) {
	return resolvePrefix(ctx, c, arg, "threads", threadCandidates)
}

func resolveTicket(ctx context.Context, c *client.Client, arg string) (string, error) {
	return resolvePrefix(ctx, c, arg, "tickets", ticketCandidates)
}

func resolvePrefix(ctx context.Context, c *client.Client, arg, what string, list candidates) (string, error) {
	if !shortID().MatchString(arg) || len(arg) < minPrefix {
		return arg, nil
	}
	return resolvePart(ctx, c, arg, what+" begin with", "id:"+arg+"*", list)
}

// resolvePart returns the only id that matches a filter. It returns arg if none does, or if that is a whole id, and an
// error with the candidates if several match.
func resolvePart(ctx context.Context, c *client.Client, arg, several, filter string, list candidates) (string, error) {
	var found []candidate
	q := client.ListQuery{Q: filter, Limit: shownCandidates + 1}
	for range shortPages {
		page, next, err := list(ctx, c, q)
		switch code := mailroom.CodeOf(err); {
		case code == mailroom.CodeInvalid, code == mailroom.CodeForbidden:
			return arg, nil // an older server, or a token without lists
		case err != nil:
			return "", err
		}
		for _, at := range page {
			if at.id == arg {
				return arg, nil
			}
			if wholeID().MatchString(at.id) {
				found = append(found, at)
			}
		}
		if next == nil || len(found) > 1 {
			break
		}
		q.Cursor = *next
	}
	switch len(found) {
	case 0:
		return arg, nil // the server says that there is none
	case 1:
		return found[0].id, nil
	}
	lines := ""
	for _, at := range found[:min(len(found), shownCandidates)] {
		lines += "\n  " + at.id + "  " + command.Shorten(display.Line(at.about), 80)
	}
	if len(found) > shownCandidates {
		lines += "\n  and more"
	}
	return "", command.Errorf(command.ExitUsage, lines, "several %s %q: give more characters of one of", several, arg)
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
	thread, err := resolveThread(ctx, c, arg)
	if err != nil {
		return "", err
	}
	t, err := c.Thread(ctx, thread)
	if err != nil {
		return arg, nil // the server says that there is no such run
	}
	if run := pick(t); run != nil {
		return *run, nil
	}
	return "", mailroom.Errorf(mailroom.CodeConflict, "thread %q has no such run: list its runs with `mailroom runs "+
		"--filter %s`", t.ID, command.Quote("thread:"+client.Quote(t.ID)))
}

// currentRun returns the run of a thread that has started and not finished.
func currentRun(t api.Thread) *string { return cmp.Or(t.ActiveRun, t.WaitingRun) }

// currentOrLatestRun returns the current run of a thread, or else the one that was submitted last.
func currentOrLatestRun(t api.Thread) *string { return cmp.Or(t.ActiveRun, t.WaitingRun, t.LatestRun) }

// latestRun returns the run of a thread that was submitted last.
func latestRun(t api.Thread) *string { return t.LatestRun }
