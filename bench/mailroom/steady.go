package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// Steady is a load at half of the full rate. Ended runs are kept for the length of one sample. The samples are alike
// if neither the store nor the cost of a run grows with the number of runs done so far.
type Steady struct {
	Rate             int            `json:"rate"`
	RetentionSeconds float64        `json:"retention_seconds"`
	Samples          []SteadySample `json:"samples"`
	// SizeRatio, DeadRatio and CPURatio are the value of the last sample divided by the value of the sample in the
	// middle.
	SizeRatio float64 `json:"size_ratio"`
	DeadRatio float64 `json:"dead_rows_ratio,omitempty"`
	CPURatio  float64 `json:"cpu_ratio"`
}

// SteadySample has the load during an interval, and the size of the store at the end of the interval.
type SteadySample struct {
	Seconds       float64 `json:"seconds"` // since the begin of the load
	RunsPerSecond float64 `json:"runs_per_second"`
	CPUPerRun     float64 `json:"cpu_ms_per_run"`
	Bytes         int64   `json:"bytes"`               // size of the files, or of the tables with their indexes
	Dead          int64   `json:"dead_rows,omitempty"` // dead rows, as PostgreSQL estimates them
}

const steadySamples = 12

// steady measures a long load.
func (b *bench) steady(ctx context.Context, dir string) error {
	rate := b.Rate
	if rate == 0 {
		b.Progress("steady: the full rate")
		err := b.inTempDir(filepath.Join(PartSteady, "full"), func(dir string) error {
			short := *b
			short.For = min(b.For, 10*time.Second)
			full, err := short.measureLoad(ctx, dir, load{})
			if err == nil {
				rate = max(1, int(full.RunsPerSecond/2))
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	retention := b.For / steadySamples
	s := &Steady{Rate: rate, RetentionSeconds: retention.Seconds()}
	b.Progress("steady: %d runs/s for %s, kept for %s", rate, b.For, retention.Round(time.Millisecond))
	dir = filepath.Join(dir, "steady")
	if err := mkdir(dir); err != nil {
		return err
	}
	d, err := b.newDriver(ctx, dir, load{rate: rate})
	if err != nil {
		return err
	}
	d.fixture.startEngine(newTimedAgent(d.onAgentStart), b.Slots)
	err = d.produceWhile(ctx, func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		purging, stop := context.WithCancel(ctx)
		group.Go(func() error { return d.purge(purging, retention) })
		group.Go(func() (err error) {
			defer stop()
			s.Samples, err = b.sample(ctx, d, dir)
			return err
		})
		return group.Wait()
	})
	if err = errors.Join(err, d.fixture.close()); err != nil {
		return err
	}
	middle, last := s.Samples[steadySamples/2-1], s.Samples[steadySamples-1]
	s.SizeRatio, s.DeadRatio = ratio(float64(last.Bytes), float64(middle.Bytes)),
		ratio(float64(last.Dead), float64(middle.Dead))
	s.CPURatio = ratio(last.CPUPerRun, middle.CPUPerRun)
	b.result.Steady = s
	return nil
}

// purge drops entries older than the retention, thread by thread, until ctx is done. As the server's janitor does, it
// begins ten rounds in the time of a retention.
func (d *driver) purge(ctx context.Context, retention time.Duration) error {
	all := make([]string, d.threads)
	for i := range all {
		all[i] = "bench-" + strconv.Itoa(i)
	}
	for next := time.Now(); ; next = next.Add(retention / 10) {
		if sleepUntil(ctx, next) != nil {
			return nil
		}
		for ids := range slices.Chunk(all, 100) {
			if err := d.fixture.ledger.PurgeEach(context.WithoutCancel(ctx), ids, retention); err != nil {
				return err
			}
			if ctx.Err() != nil {
				return nil
			}
		}
	}
}

// sample observes the load and the store.
func (b *bench) sample(ctx context.Context, d *driver, dir string) (samples []SteadySample, err error) {
	if err := d.started(ctx); err != nil {
		return nil, err
	}
	begin, err := d.snapshot(ctx)
	for last := begin; err == nil && len(samples) < steadySamples; {
		if err := sleepUntil(ctx, begin.At.Add(b.For*time.Duration(len(samples)+1)/steadySamples)); err != nil {
			return nil, err
		}
		var now snapshot
		if now, err = d.snapshot(ctx); err != nil {
			break
		}
		one := SteadySample{
			Seconds: now.At.Sub(begin.At).Seconds(), RunsPerSecond: rate(last, now),
			CPUPerRun: ratio(milliseconds(int64(now.CPU-last.CPU)), float64(now.Ended-last.Ended)),
		}
		if one.Bytes, one.Dead, err = b.storeSize(ctx, d.fixture, dir); err != nil {
			break
		}
		b.Progress("  %.0fs: %.0f runs/s, %.0f MB, %d dead rows", one.Seconds, one.RunsPerSecond,
			float64(one.Bytes)/1e6, one.Dead)
		samples, last = append(samples, one), now
	}
	return samples, err
}

// storeSize returns the size of the store and its number of dead rows.
func (b *bench) storeSize(ctx context.Context, h *fixture, dir string) (bytes, dead int64, err error) {
	if h.schema == "" {
		bytes, err = diskUsage(dir)
		return bytes, 0, err
	}
	conn, err := pgx.Connect(ctx, b.Store)
	if err != nil {
		return 0, 0, fmt.Errorf("read the size of the tables: %w", err)
	}
	err = conn.QueryRow(ctx, `SELECT sum(pg_total_relation_size(relid))::bigint, sum(n_dead_tup)::bigint
		FROM pg_stat_user_tables WHERE schemaname = $1`, h.schema).Scan(&bytes, &dead)
	if err = errors.Join(err, conn.Close(ctx)); err != nil {
		return 0, 0, fmt.Errorf("read the size of the tables: %w", err)
	}
	return bytes, dead, nil
}
