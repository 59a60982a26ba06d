package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"mailroom/client"
	"mailroom/entry"
)

// outage is a time in which a server could not renew its lease. Other servers must take over its
// runs. Times are of the database's clock.
type outage struct {
	cycle        int64
	kind         string
	began, ended time.Time
	database     bool // the database was killed during the outage
	claims       []heldClaim
}

// heldClaim is a claim of a server at the begin of its outage.
type heldClaim struct{ thread, run string }

// takeoverBound is when another server must have claimed the runs of a server that has failed.
func takeoverBound(lease time.Duration) time.Duration { return lease + sweep(lease) + time.Second }

// beginOutages records the claims of servers that have just failed.
func (n *nodes) beginOutages(ctx context.Context, p plan, victims []int) ([]outage, error) {
	now, err := n.now(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := n.database.Select(ctx, "SELECT id, current_run, worker FROM mailroom.thread WHERE worker IS NOT NULL")
	if err != nil {
		return nil, fmt.Errorf("read the claims: %w", err)
	}
	var failed []int // their processes
	for _, i := range victims {
		failed = append(failed, n.servers[i].cmd.Process.Pid)
	}
	reading := n.after(victims[len(victims)-1])
	at := n.torture.target(n.servers[reading])
	defer at.http.CloseIdleConnections()
	workers, err := client.New(at.url, at.token, client.WithHTTPClient(at.http), client.WithTimeout(waitTimeout)).Workers(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the workers: %w", err)
	}
	o := outage{cycle: n.torture.counts.cycles.Load(), kind: p.kind, began: now}
	for _, w := range workers {
		if !slices.Contains(failed, w.PID) {
			continue
		}
		for _, row := range rows {
			if row[2] == w.ID {
				o.claims = append(o.claims, heldClaim{thread: row[0], run: row[1]})
			}
		}
	}
	return []outage{o}, nil
}

// endOutages records outages before their faults are repaired.
func (n *nodes) endOutages(ctx context.Context, p plan, began []outage) error {
	if len(began) == 0 {
		return nil
	}
	var ended time.Time
	if p.also != database {
		var err error
		if ended, err = n.now(ctx); err != nil {
			return err
		}
	}
	for _, o := range began {
		o.ended, o.database = ended, p.also == database
		n.torture.outages = append(n.torture.outages, o)
	}
	return nil
}

// now returns the time of the database.
func (n *nodes) now(ctx context.Context) (time.Time, error) {
	rows, err := n.database.Select(ctx, "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
	if err != nil {
		return time.Time{}, fmt.Errorf("read the clock of the database: %w", err)
	}
	micros, err := strconv.ParseInt(rows[0][0], 10, 64)
	return time.UnixMicro(micros), err
}

// takeovers are the fates of the claims of servers that failed.
type takeovers struct {
	outages, claims int
	times           []time.Duration // until the next claim by another server, sorted
	late            []string
	ended, kept     int // without another attempt; by a server whose outage was short
	uncounted       int // the database was killed
}

// takeovers reads from the logs when each claim of a failed server was taken over.
func (t *torture) takeovers() (all takeovers) {
	bound := takeoverBound(t.lease)
	for _, o := range t.outages {
		all.outages++
		for _, c := range o.claims {
			all.claims++
			took, started := t.nextStart(c, o.began)
			switch {
			case o.database:
				all.uncounted++
			case started && took <= bound:
				all.times = append(all.times, took)
			case o.ended.Sub(o.began) < bound:
				all.kept++
			case started:
				all.times = append(all.times, took)
				all.late = append(all.late, fmt.Sprintf("cycle %d, %s: run %s of thread %s after %s", o.cycle, o.kind, c.run, c.thread, took.Round(time.Millisecond)))
			default:
				all.ended++
			}
		}
	}
	slices.Sort(all.times)
	return all
}

// nextStart returns how long after a time the run of a claim had its next attempt, if it did before
// it ended.
func (t *torture) nextStart(c heldClaim, after time.Time) (time.Duration, bool) {
	entries, _ := t.log(c.thread).entriesFrom(1)
	for _, e := range entries {
		if e.Run != c.run || !e.At.After(after) {
			continue
		}
		switch e.Kind {
		case entry.KindStarted, entry.KindResumed:
			return e.At.Sub(after), true
		case entry.KindCompleted, entry.KindFailed, entry.KindCancelled, entry.KindWaiting:
			return 0, false
		}
	}
	return 0, false
}

// writeTakeovers writes the times of takeovers.
func (t *torture) writeTakeovers(w io.Writer) {
	if len(t.outages) == 0 {
		return
	}
	all := t.takeovers()
	at := func(percent int) time.Duration {
		if len(all.times) == 0 {
			return 0
		}
		return all.times[(len(all.times)-1)*percent/100].Round(time.Millisecond)
	}
	fmt.Fprintf(w, "%d outages of servers with %d claims: %d were claimed by others, after %s (p50), %s (p90), %s (p99), %s (max); lease %s, sweep %s, bound %s; %d late\n",
		all.outages, all.claims, len(all.times), at(50), at(90), at(99), at(100), t.lease, sweep(t.lease), takeoverBound(t.lease), len(all.late))
	fmt.Fprintf(w, "the others: %d kept over a short outage, %d ended without another attempt, %d not counted because the database was killed too\n", all.kept, all.ended, all.uncounted)
	for _, what := range all.late {
		fmt.Fprintf(w, "late: %s\n", what)
	}
}
