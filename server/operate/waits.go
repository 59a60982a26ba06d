package operate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mailroom"
	"mailroom/api"
	"mailroom/internal/display"
	"mailroom/ledger"
	"mailroom/server/internal/request"
	"mailroom/store"
	"mailroom/thread"
)

const (
	// maxWaits is how many queued runs a sum of causes looks at.
	maxWaits = 500
	// maxWaitGroups is how many causes it has.
	maxWaitGroups = 100
)

type listWaitsInput struct {
	Q string `query:"q" doc:"A filter as in the list of runs; only queued runs count."`
}

// Waits sums up why queued runs do not run, by the cause at the end of what each of them waits for. It looks at the
// oldest ones, because they have waited the longest, and their causes are what an operator must end first. For a token
// that does not see all threads no index has the queued runs alone: it looks at the newest runs of these threads.
//
// A sum over all would need a row for each cause, which every transition of every thread behind it would change: a
// decision would move thousands of runs.
func (h *ListHandlers) Waits(ctx context.Context, in *listWaitsInput) (*body[api.Waits], error) {
	who := request.CallerOf(ctx)
	f, conditions, err := parseRunFilter("query.", in.Q, who)
	if err != nil {
		return nil, err
	}
	queued := func(s mailroom.Status) bool { return s == mailroom.StatusQueued }
	if conditions.Statuses != nil && !slices.ContainsFunc(conditions.Statuses, queued) {
		return &body[api.Waits]{api.Waits{Items: []api.WaitGroup{}}}, nil
	}
	conditions.Statuses = []mailroom.Status{mailroom.StatusQueued}
	scan, err := h.newRunScan(ctx, f, conditions, who.SeesAll())
	if err != nil {
		return nil, err
	}
	most := maxWaits
	if scan.source.scoped {
		most = maxScannedRows
	}
	var rows []*mailroom.Run
	done, err := scan.read(ctx, h.find, place{}, most, func(r *mailroom.Run) {
		if queued(r.Status) && len(rows) < maxWaits {
			rows = append(rows, r)
		}
	})
	if err != nil {
		return nil, err
	}
	groups := waitGroups{}
	out := api.Waits{Runs: len(rows)}
	if !done.end || len(rows) == maxWaits {
		out.LookedTo = done.lookedTo
	}
	err = h.find.View(ctx, func(rd store.Reader) error {
		all, err := ledger.WaitsFor(rd, rd.Now(), rows, request.SeesRun(who))
		for _, r := range rows {
			if of := all[r.ID]; len(of) > 0 { // it may run by now
				groups.add(r, of)
			}
		}
		return err
	})
	out.Items = groups.largest()
	return &body[api.Waits]{out}, err
}

// waitGroups are sums of runs by the cause for which they wait.
type waitGroups map[waitCause]*waitGroup

// waitCause identifies a cause: runs of one agent that wait for persons are one group.
type waitCause struct {
	cause       thread.Cause
	agent, node string
	ofKeys      bool // it is a limit of concurrency keys, which have one group for all keys of an agent
}

type waitGroup struct {
	api.WaitGroup
	roots map[string]bool // the runs that wait for the cause themselves
	keys  map[string]int  // the runs by concurrency key
}

// add adds a run and what it waits for.
func (g waitGroups) add(r *mailroom.Run, of ledger.Blocked) {
	last := of[len(of)-1]
	root := r.ID
	if len(of) > 1 {
		root = of[len(of)-2].Run
	}
	if last.Run != "" { // a run that works
		root = last.Run
	}
	cause := waitCause{last.Cause, last.Agent, last.Node, last.Bound.Key != ""}
	group := g[cause]
	if group == nil {
		group = &waitGroup{roots: map[string]bool{}, keys: map[string]int{}, WaitGroup: api.WaitGroup{
			Cause: cause.cause, Agent: cause.agent, Text: request.BlockerText(&last), Run: root, Since: r.CreatedAt,
		}}
		g[cause] = group
	}
	group.Runs++
	if cause.ofKeys {
		group.keys[last.Bound.Key]++
	}
	group.roots[root] = true
	if r.CreatedAt.Before(group.Since) {
		group.Since, group.Run, group.Text = r.CreatedAt, root, request.BlockerText(&last)
	}
}

const (
	// shownKeys is how many concurrency keys the text of a group names, and shownKey how much of each, in characters.
	shownKeys = 3
	shownKey  = 60
)

// keysText says for which concurrency keys of an agent runs wait, for a place or for a start of the rate: those with
// the most runs by name, the others by their number.
func keysText(cause thread.Cause, agent string, runs map[string]int) string {
	keys := slices.SortedFunc(maps.Keys(runs), func(a, b string) int {
		return cmp.Or(runs[b]-runs[a], cmp.Compare(a, b))
	})
	var named []string
	for _, key := range keys[:min(len(keys), shownKeys)] {
		named = append(named, fmt.Sprintf("%q (%d)", display.Cut(key, shownKey), runs[key]))
	}
	if more := len(keys) - len(named); more == 1 {
		named = append(named, "1 other key")
	} else if more > 1 {
		named = append(named, fmt.Sprintf("%d other keys", more))
	}
	last := len(named) - 1
	what := "the end of runs"
	if cause == thread.CauseRate {
		what = "the next starts"
	}
	return fmt.Sprintf("%s of agent %s with the same concurrency key: %s and %s", what, agent,
		strings.Join(named[:last], ", "), named[last])
}

// largest returns the groups with the most runs.
func (g waitGroups) largest() []api.WaitGroup {
	list := []api.WaitGroup{}
	for _, group := range slices.Collect(maps.Values(g)) {
		group.Behind = len(group.roots)
		if len(group.keys) > 1 {
			group.Text = keysText(group.Cause, group.Agent, group.keys)
		}
		list = append(list, group.WaitGroup)
	}
	slices.SortFunc(list, func(a, b api.WaitGroup) int {
		return cmp.Or(b.Runs-a.Runs, a.Since.Compare(b.Since), cmp.Compare(a.Cause, b.Cause),
			cmp.Compare(a.Agent, b.Agent))
	})
	return list[:min(len(list), maxWaitGroups)]
}
