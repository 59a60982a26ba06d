package sqlite

import (
	"mailroom"
	"mailroom/store"
	"mailroom/store/internal/sqlstore"
)

// The rows of an owner and an agent are a group, and an index of each of the tables run and thread has the groups in
// order, each in the order of its keys. A list by owner merges the groups of the owner's agents, a list by agent merges
// one group of each owner. Its cost grows with the number of groups, by some microseconds each, and not with rows. Two
// indexes would spare the merges, and cost each new run and each new thread one page more.

// group is an owner and an agent. Runs that are older than their column have the owner nil.
type group struct {
	owner any // string or nil
	agent string
}

// Statements that step through the groups. Each is one seek in the index.
const (
	nextAgentOfRuns    = "SELECT agent FROM run WHERE owner IS ? AND agent >= ? ORDER BY agent LIMIT 1"
	nextOwnerOfRuns    = "SELECT owner FROM run WHERE owner >= ? ORDER BY owner LIMIT 1"
	nextAgentOfThreads = "SELECT agent FROM thread WHERE owner IS ? AND agent >= ? ORDER BY agent LIMIT 1"
	nextOwnerOfThreads = "SELECT owner FROM thread WHERE owner >= ? ORDER BY owner LIMIT 1"
)

// groupsOf returns the groups of an owner, by the statement for the next agent.
func groupsOf(r reader, next string, owner any) (found []group, err error) {
	agents, err := steps(r, next, owner)
	for _, agent := range agents {
		found = append(found, group{owner, agent})
	}
	return found, err
}

// steps returns the distinct values that a statement finds, whose last argument is the least value that it may find.
func steps(r reader, next string, args ...any) (values []string, err error) {
	for least, more := "", true; more && err == nil; {
		more = false
		err = r.query("read groups", next, append(args[:len(args):len(args)], least), func(c *columns) (bool, error) {
			value := c.Text()
			values, least, more = append(values, value), value+"\x00", true
			return false, nil
		})
	}
	return values, err
}

// runGroups returns the groups of runs of an owner or, with owner "", of an agent.
func runGroups(r reader, owner, agent string) (found []group, err error) {
	if owner != "" {
		if found, err = groupsOf(r, nextAgentOfRuns, owner); err != nil {
			return nil, err
		}
		older, err := groupsOf(r, nextAgentOfRuns, nil)
		return append(found, older...), err
	}
	owners, err := steps(r, nextOwnerOfRuns)
	for _, owner := range owners {
		found = append(found, group{owner, agent})
	}
	return append(found, group{nil, agent}), err
}

// threadGroups returns the groups of threads of an owner, of an agent, or of both.
func threadGroups(r reader, owner, agent string) (found []group, err error) {
	switch {
	case agent == "":
		return groupsOf(r, nextAgentOfThreads, owner)
	case owner != "":
		return []group{{owner, agent}}, nil
	}
	owners, err := steps(r, nextOwnerOfThreads)
	for _, owner := range owners {
		found = append(found, group{owner, agent})
	}
	return found, err
}

// groupKeys returns a list of the keys of each group. table is run or thread.
func groupKeys(table string, groups []group) []*sqlstore.Select {
	lists := make([]*sqlstore.Select, len(groups))
	for i, g := range groups {
		lists[i] = &sqlstore.Select{}
		lists[i].Add("SELECT key FROM " + table)
		lists[i].Cond("owner IS ?", g.owner)
		lists[i].Cond("agent = ?", g.agent)
	}
	return lists
}

// runsOfGroups reads the runs of an owner, or of an agent with some statuses.
func runsOfGroups(r reader, q store.RunQuery) ([]*mailroom.Run, error) {
	groups, err := runGroups(r, q.Owner, q.Agent)
	if err != nil {
		return nil, err
	}
	lists := groupKeys("run", groups)
	for _, s := range lists {
		oneOf(s, "status", known(q.Statuses, allStatuses()...))
	}
	return runsAmong(r, q, lists)
}

// runsAmong reads the runs whose keys the lists have.
func runsAmong(r reader, q store.RunQuery, lists []*sqlstore.Select) (runs []*mailroom.Run, err error) {
	p := page{q.From, q.Oldest, q.Limit, q.Bytes}
	keys, err := firstKeys(r, p, lists)
	if err != nil {
		return nil, err
	}
	return runs, eachOf(r, p, runByKey, keys, func(c *columns) error {
		run, err := scanRun(c)
		runs = append(runs, run)
		return err
	})
}

// threadsOfGroups reads the threads of an owner, of an agent, or of both.
func threadsOfGroups(r reader, q store.ThreadQuery) (threads []*mailroom.Thread, err error) {
	groups, err := threadGroups(r, q.Owner, q.Agent)
	if err != nil {
		return nil, err
	}
	lists := groupKeys("thread", groups)
	for _, s := range lists {
		s.Cond("deleted IS NULL")
	}
	p := page{q.From, q.Oldest, q.Limit, q.Bytes}
	keys, err := firstKeys(r, p, lists)
	if err != nil {
		return nil, err
	}
	return threads, eachOf(r, p, threadByKey, keys, func(c *columns) error {
		t, err := scanThread(c)
		threads = append(threads, t)
		return err
	})
}
