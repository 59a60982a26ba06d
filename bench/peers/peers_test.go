package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// counter is a queue in memory. It does not record every loses-th completion.
type counter struct {
	observer observer
	loses    int64 // 0: none
	record   atomic.Int64
	closed   bool
	fails    error // of submits
}

func (c *counter) open(_ context.Context, _ string, _ int, h observer) error {
	c.observer = h
	return nil
}

func (c *counter) submit(_ context.Context, w work) error {
	if c.fails != nil {
		return c.fails
	}
	c.observer.started(w.Number)
	if c.loses == 0 || w.Number%c.loses != 0 {
		c.record.Add(1)
	}
	c.observer.done(w.Number)
	return nil
}

func (c *counter) recorded(context.Context) (int64, error) { return c.record.Load(), nil }

func (c *counter) close() error {
	c.closed = true
	return nil
}

// light returns a load that is short enough for tests.
func light() load {
	return load{producers: 4, slots: 1, rate: 2000, warmup: 10 * time.Millisecond, last: 100 * time.Millisecond}
}

func TestLoadIsMeasuredAndThePeerClosed(t *testing.T) {
	c := &counter{}
	f, err := measure(t.Context(), c, light(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if f.RunsPerSecond <= 0 || f.RunsPerSecond > 4000 {
		t.Errorf("%g runs/s, want about 2000", f.RunsPerSecond)
	}
	if !c.closed {
		t.Error("the peer is still open")
	}
}

func TestLostWorkIsNoResult(t *testing.T) {
	c := &counter{loses: 7}
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("test timeout"))
	defer cancel()
	if _, err := measure(ctx, c, light(), t.TempDir()); err == nil || !strings.Contains(err.Error(), "are recorded") {
		t.Errorf("got %v, want an error about missing completions", err)
	}
	if !c.closed {
		t.Error("the peer is still open")
	}
}

func TestRefusedSubmitEndsTheMeasurement(t *testing.T) {
	c := &counter{fails: errors.New("full")}
	if _, err := measure(t.Context(), c, light(), t.TempDir()); !errors.Is(err, c.fails) {
		t.Errorf("got %v, want the refusal", err)
	}
}

func TestTableHasMediansAndRatios(t *testing.T) {
	rate := func(values ...float64) (r []figures) {
		for _, v := range values {
			r = append(r, figures{RunsPerSecond: v, SubmitP50: v / 1000, SubmitP99: v / 100})
		}
		return r
	}
	var out strings.Builder
	err := printTable(&out, []contender{{name: mailroom, settings: "as it is"}, {name: "other", settings: "slow"}},
		map[string][]figures{
			mailroom: rate(3000, 1000, 2000),
			"other":  rate(500, 300),
		})
	if err != nil {
		t.Fatal(err)
	}
	got := strings.FieldsFunc(out.String(), func(r rune) bool { return r == '\n' })
	for i := range got {
		got[i] = strings.Join(strings.Fields(got[i]), " ")
	}
	want := []string{
		"RUNS/S LEAST TO MOST MAILROOM IS SUBMIT P50/P99 ms START P50/P99 ms CPU ms A RUN + DATABASE",
		"mailroom 2000 1000 to 3000 - 2.00 / 20.00 0.00 / 0.00 0.000 + 0.000",
		"other 400 300 to 500 5.00 times 0.40 / 4.00 0.00 / 0.00 0.000 + 0.000",
		"mailroom / best peer: 5.00",
		"How each is set:",
		"mailroom: as it is",
		"other: slow",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestOursIsAlwaysAmongTheChosen(t *testing.T) {
	all := contenders("mailroom")
	chosen, err := choose(all, "jetstream,goqite")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range chosen {
		got = append(got, c.name)
	}
	if want := []string{mailroom, "jetstream", "goqite"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := choose(all, "kafka"); err == nil || !strings.Contains(err.Error(), `"kafka"`) {
		t.Errorf("got %v, want an error about the unknown contender", err)
	}
}
