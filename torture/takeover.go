package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
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

// heldClaim is a claim of a server at the beginning of its outage.
type heldClaim struct{ thread, run string }

// takeoverBound is the time after which another server must have claimed the runs of a server that has failed.
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
	var failed []int // process ids of the victims
	for _, i := range victims {
		failed = append(failed, n.servers[i].cmd.Process.Pid)
	}
	reading := n.after(victims[len(victims)-1])
	at := n.torture.target(n.servers[reading])
	defer at.http.CloseIdleConnections()
	workers, err := client.New(at.url, at.token, client.WithHTTPClient(at.http),
		client.WithTimeout(waitTimeout)).Workers(ctx)
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

// takeovers has, for each claim of a server that failed, how the run went on.
type takeovers struct {
	outages, claims int
	claimed, ended  []time.Duration // times until another server claimed the run, or ended it; sorted
	late            []string
	kept            int // runs kept by a server whose outage was short
	uncounted       int // the database was killed
}

// newTakeovers reads from the logs when each claim of a failed server was taken over.
func newTakeovers(t *torture) (all takeovers) {
	bound := takeoverBound(t.lease)
	for _, o := range t.outages {
		all.outages++
		for _, c := range o.claims {
			all.claims++
			took, claimed := nextStart(t, c, o.began)
			switch {
			case o.database:
				all.uncounted++
				continue
			case took > bound && o.ended.Sub(o.began) < bound:
				all.kept++
				continue
			case claimed:
				all.claimed = append(all.claimed, took)
			default:
				all.ended = append(all.ended, took)
			}
			if took > bound {
				all.late = append(all.late, fmt.Sprintf("cycle %d, %s: run %s of thread %s after %s:%s", o.cycle, o.kind, c.run,
					c.thread, took.Round(time.Millisecond), historyOf(t, c, o.began)))
			}
		}
	}
	slices.Sort(all.claimed)
	slices.Sort(all.ended)
	return all
}

// nextStart returns how long after a time the run of a claim began its next attempt, or, if it had none, ended or
// began to wait. claimed reports whether it had one.
func nextStart(t *torture, c heldClaim, after time.Time) (took time.Duration, claimed bool) {
	entries, _ := t.log(c.thread).entriesFrom(1)
	for _, e := range entries {
		if e.Run != c.run || !e.At.After(after) {
			continue
		}
		switch e.Kind {
		case entry.KindStarted, entry.KindResumed:
			return e.At.Sub(after), true
		case entry.KindCompleted, entry.KindFailed, entry.KindCancelled, entry.KindWaiting:
			return e.At.Sub(after), false
		}
	}
	return 0, false // the run ended before
}

// historyOf returns the entries of a run until its next attempt, with their times after a time.
func historyOf(t *torture, c heldClaim, after time.Time) string {
	text := &strings.Builder{}
	entries, _ := t.log(c.thread).entriesFrom(1)
	for _, e := range entries {
		if e.Run != c.run {
			continue
		}
		fmt.Fprintf(text, " %s#%d %+.3fs", e.Kind, e.Attempt, e.At.Sub(after).Seconds())
		if e.Kind == entry.KindRescheduled {
			fmt.Fprintf(text, " %s", e.Body)
		}
		if e.At.After(after) && (e.Kind == entry.KindStarted || e.Kind == entry.KindResumed) {
			break
		}
	}
	return text.String()
}

// writeTakeovers writes the times of takeovers.
func writeTakeovers(t *torture, w io.Writer) {
	if len(t.outages) == 0 {
		return
	}
	all := newTakeovers(t)
	fmt.Fprintf(w, "%d outages of servers with %d claims; lease %s, sweep %s, bound %s: %d late\n",
		all.outages, all.claims, t.lease, sweep(t.lease), takeoverBound(t.lease), len(all.late))
	fmt.Fprintf(w, "  claimed by another server: %s\n", percentiles(all.claimed))
	fmt.Fprintf(w, "  ended without another attempt: %s\n", percentiles(all.ended))
	fmt.Fprintf(w, "  %d kept over a short outage, %d not counted because the database was killed too\n", all.kept,
		all.uncounted)
	for _, what := range all.late {
		fmt.Fprintf(w, "late: %s\n", what)
	}
}

// percentiles describes sorted durations.
func percentiles(list []time.Duration) string {
	if len(list) == 0 {
		return "0"
	}
	at := func(percent int) time.Duration { return list[(len(list)-1)*percent/100].Round(time.Millisecond) }
	return fmt.Sprintf("%d, after p50 %s, p90 %s, p99 %s, max %s", len(list), at(50), at(90), at(99), at(100))
}
