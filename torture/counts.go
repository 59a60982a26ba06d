package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// counts are the numbers of the summary.
type counts struct {
	cycles, events, deltas, gaps, incomplete, effects, sends, repeats, checks, examined, copies, children atomic.Int64
	olderStarts, newerStarts                                                                              atomic.Int64
	histories, facts, undecided, zombies, scheduled                                                       atomic.Int64

	mu         sync.Mutex
	operations map[string]int // owned by mu: by kind and outcome
	kills      map[string]int // owned by mu: by point
	unmet      int            // points that were not reached
}

func (c *counts) operation(o *operation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.operations == nil {
		c.operations = map[string]int{}
	}
	kind := o.Kind
	if o.Kind == "submit" {
		mode := string(o.Submit.Mode)
		if mode == "" {
			mode = "queue"
		}
		kind = "submit " + mode
	}
	c.operations[kind+"/"+o.Outcome]++
	c.operations[kind]++
}

// kill counts a planned kill. point is the point at which the process killed itself, or "" if torture killed it.
func (c *counts) kill(planned, point string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kills == nil {
		c.kills = map[string]int{}
	}
	if point != "" {
		c.kills[point]++
		return
	}
	for _, when := range []string{"at ", "before ", "after "} {
		if strings.HasPrefix(planned, when) && planned != byChance && planned != atStart {
			c.unmet++
			planned = "not reached in time, killed from outside"
		}
	}
	c.kills[planned]++
}

// summary writes the counts of a round.
func (t *torture) summary(w io.Writer) {
	c := &t.counts
	c.mu.Lock()
	defer c.mu.Unlock()
	table := &strings.Builder{}
	all, killed := 0, 0
	fmt.Fprintf(table, "\n%-22s %8s %8s %8s %8s\n", "operation", "all", done, refused, unknown)
	for _, kind := range slices.Sorted(maps.Keys(c.operations)) {
		if strings.Contains(kind, "/") {
			continue
		}
		all += c.operations[kind]
		fmt.Fprintf(table, "%-22s %8d %8d %8d %8d\n", kind, c.operations[kind],
			c.operations[kind+"/"+done], c.operations[kind+"/"+refused], c.operations[kind+"/"+unknown])
	}
	fmt.Fprintf(table, "\n%-36s %8s\n", "killed", "times")
	for _, point := range slices.Sorted(maps.Keys(c.kills)) {
		killed += c.kills[point]
		fmt.Fprintf(table, "%-36s %8d\n", point, c.kills[point])
	}
	threads, entries := 0, int64(0)
	for _, l := range t.allLogs() {
		threads++
		entries += l.length()
	}
	fmt.Fprintf(w, "\n%d cycles, %d kills, %d operations, seed %d\n%s", c.cycles.Load(), killed, all, t.seed, table)
	fmt.Fprintf(w, "\nchecked %d times: %d entries of %d threads, each against the rules and all readers\n",
		c.checks.Load(), entries, threads)
	fmt.Fprintf(w, "readers received %d events, %d of them streamed text, %d gaps after a purge\n", c.events.Load(),
		c.deltas.Load(), c.gaps.Load())
	fmt.Fprintf(w,
		"%d repeats of a key returned the first answer; %d external effects and %d sends compared with the log\n",
		c.repeats.Load(), c.effects.Load(), c.sends.Load())
	fmt.Fprintf(w, "%d histories of %d facts are linearizable (porcupine); %d were too long to decide\n",
		c.histories.Load(), c.facts.Load(), c.undecided.Load())
	fmt.Fprintf(w, "%d attempts of frozen workers resumed after losing their claim, and wrote nothing\n", c.zombies.Load())
	writeTakeovers(t, w)
	if t.old != "" {
		fmt.Fprintf(w, "servers were started %d times with the older program and %d times with the newer one\n",
			c.olderStarts.Load(), c.newerStarts.Load())
	}
	fmt.Fprintf(w, "%d outcomes of children were reported correctly to their callers\n", c.children.Load())
	fmt.Fprintf(w, "%d messages of schedules were sent once, at their only time\n", c.scheduled.Load())
	fmt.Fprintf(w, "doctor found nothing in %d checks of the live and stopped store, nor in %d copies of the live store\n",
		c.examined.Load(), c.copies.Load())
	if n := c.incomplete.Load(); n > 0 {
		fmt.Fprintf(w, "%d threads were not fully checked: entries were purged before they were read\n", n)
	}
}

// printViolations writes the first violations with the log and the operations of their threads.
func (t *torture) printViolations(w io.Writer) {
	found := t.violations()
	for i, v := range found {
		if i == 5 {
			fmt.Fprintf(w, "\nand %d more\n", len(found)-i)
			return
		}
		fmt.Fprintf(w, "\nVIOLATION in cycle %d: %s\n", v.cycle, v.what)
		if i > 0 || v.thread == "" {
			continue
		}
		fmt.Fprintf(w, "\nthe end of the log of thread %s:\n", v.thread)
		for _, line := range t.log(v.thread).tail(30) {
			fmt.Fprintf(w, "  %.500s\n", line)
		}
		fmt.Fprintf(w, "\nits last operations:\n")
		for _, line := range t.journal.tail(v.thread, 20) {
			fmt.Fprintf(w, "  %.500s\n", line)
		}
	}
}
