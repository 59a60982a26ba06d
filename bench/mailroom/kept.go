package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"mailroom"
	"mailroom/store/postgres"
)

// population is what a folder of [PartQueries] says about its store. It is written after each step, so that a folder
// of [Options.Keep] is filled once.
type population struct {
	Schema  string        `json:"schema,omitempty"` // in PostgreSQL
	Runs    int64         `json:"runs"`
	Threads int           `json:"threads"`
	Began   time.Time     `json:"began"` // when the first run was submitted
	Took    time.Duration `json:"took"`  // until the last run ended
	// History is set if the store has the sums and the audit log of [fixture.addHistory].
	History bool `json:"history"`

	path   string
	remove func() error // removes the store, after the measurement
}

func (p *population) save() error {
	text, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("describe the store: %w", err)
	}
	if err := os.WriteFile(p.path, text, 0o600); err != nil {
		return fmt.Errorf("describe the store: %w", err)
	}
	return nil
}

// inKept calls f with a folder of Keep, which stays, or with a temporary one if Keep is empty.
func (b *bench) inKept(name, temporary string, f func(dir string) error) error {
	if b.Keep == "" {
		return b.inTempDir(temporary, f)
	}
	dir := filepath.Join(b.Keep, b.storeKind()+"-"+name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create a folder for the store: %w", err)
	}
	return f(dir)
}

// populate fills the store of a folder with runs and a history, as far as it does not have them.
func (b *bench) populate(ctx context.Context, dir string, runs int) (*population, error) {
	p := &population{path: filepath.Join(dir, "population.json"), remove: func() error { return nil }}
	text, err := os.ReadFile(p.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := b.fillStore(ctx, dir, runs, p); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, fmt.Errorf("read what the store has: %w", err)
	default:
		if err := json.Unmarshal(text, p); err != nil {
			return nil, fmt.Errorf("read what the store has: %w", err)
		}
	}
	if !p.History {
		p.History = true
		err = errors.Join(b.withHistory(ctx, dir, p), p.save())
	} else {
		err = nil
	}
	if err != nil {
		return nil, errors.Join(err, p.remove())
	}
	return p, nil
}

// fillStore runs the runs of a new store.
func (b *bench) fillStore(ctx context.Context, dir string, runs int, p *population) error {
	b.Progress("queries: running %d runs", runs)
	d, err := b.newDriver(ctx, dir, load{})
	if err != nil {
		return err
	}
	d.threads = runs / runsPerThread
	d.fixture.startEngine(&failingAgent{Agent: newTimedAgent(d.onAgentStart), every: failEvery}, b.Slots)
	remove := d.fixture.remove
	d.fixture.remove = func() error { return nil } // the server needs the store
	if b.Keep == "" {
		p.remove = remove
	}
	p.Schema, p.Threads, p.Began = d.fixture.schema, d.threads, time.Now()
	if err := errors.Join(d.fill(ctx, runs), d.room.waitEmpty(ctx), d.fixture.close()); err != nil {
		return errors.Join(err, remove())
	}
	p.Runs, p.Took = d.submitted.Load(), time.Since(p.Began)
	return p.save()
}

// withHistory opens the store of a folder and adds [fixture.addHistory].
func (b *bench) withHistory(ctx context.Context, dir string, p *population) error {
	open := func(ctx context.Context, dir string) (*fixture, error) {
		if b.Store != "" {
			return openHandles(ctx, postgres.Options{URL: b.Store, Schema: p.Schema, Node: "bench"}, 1)
		}
		return openFile(ctx, dir)
	}
	b.Progress("queries: adding sums of a year, an audit log and queued runs")
	h, err := newFixture(ctx, open, dir, b.AgentVersion, func(*mailroom.Run) {})
	if err != nil {
		return err
	}
	return errors.Join(h.addHistory(ctx, p.Began, &b.Options), h.close())
}
