package main

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"mailroom/internal/pgtest"
)

// The same load runs on PostgreSQL, with keys, and drops its schema.
func TestALoadRunsOnPostgreSQL(t *testing.T) {
	cluster := pgtest.Durable(t)
	o := Options{
		Writers: 2, Nodes: 1, Dir: t.TempDir(), For: 200 * time.Millisecond, QueryRuns: 1000, Scale: 0.0001, Producers: 4,
		Slots: 4, Keys: true, Store: cluster.URL(),
		AgentVersion: "1", Progress: t.Logf,
	}
	result, err := Run(t.Context(), o, []string{PartRuns})
	if err != nil {
		t.Fatal(err)
	}
	if result.Runs.Runs == 0 || result.Settings.Store != "postgres" {
		t.Errorf("got %d runs on %s, want some on postgres", result.Runs.Runs, result.Settings.Store)
	}
	conn, err := pgx.Connect(t.Context(), cluster.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := conn.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	left := 0
	if err := conn.QueryRow(t.Context(),
		"SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'mailroom_bench%'").Scan(&left); err != nil {
		t.Fatal(err)
	}
	if left != 0 {
		t.Errorf("%d schemas are left, want none", left)
	}
}
