package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"mailroom/issues/tracker"
)

// Crowd has the result of many processes that work on one tracker at the same time.
type Crowd struct {
	What   string  `json:"what"`
	Issues int     `json:"issues"` // issues in the tracker before the changes
	Took   float64 `json:"took_ms"`
	Kept   int     `json:"kept"` // changes in the file at the end; a change that is missing was lost
	Disk   float64 `json:"disk_ms"`
	Starts float64 `json:"starts_ms"` // time of as many processes at once that only print their version
}

// crowds measures what many processes do at once, and a large import.
func (b Bench) crowds(ctx context.Context, dir string) (found []Crowd, err error) {
	sizes := []int{b.Crowd}
	for _, n := range b.Sizes {
		if n > b.Crowd {
			sizes = append(sizes, n)
			break
		}
	}
	for _, n := range sizes {
		p, err := b.newFixture(filepath.Join(dir, fmt.Sprintf("crowd-%d", n)), n)
		if err != nil {
			return nil, err
		}
		for _, part := range []struct {
			what string
			args func(i int) []string
			kept func(it *tracker.Issue) bool
		}{
			{"updates", func(i int) []string { return []string{"update", ID(i), "--notes", "changed in the crowd"} },
				func(it *tracker.Issue) bool { return it.Notes == "changed in the crowd" }},
			{"creates of equal titles", func(int) []string { return []string{"create", "All the same"} },
				func(it *tracker.Issue) bool { return it.Title == "All the same" }},
		} {
			c, err := b.crowd(ctx, p, part.args, part.kept)
			if err != nil {
				return nil, err
			}
			c.What = fmt.Sprintf("%d %s at once", b.Crowd, part.what)
			found = append(found, c)
		}
		b.Logf("%d at once on %d issues", b.Crowd, n)
	}
	c, err := b.measureImport(ctx, filepath.Join(dir, "import"))
	return append(found, c), err
}

func (b Bench) crowd(
	ctx context.Context, p *fixture, args func(i int) []string, kept func(*tracker.Issue) bool,
) (c Crowd, err error) {
	c.Issues = p.issues
	if c.Starts, err = b.runParallel(ctx, p, func(int) []string { return []string{"version"} }); err != nil {
		return c, err
	}
	for range b.Crowd {
		d, err := p.write()
		if err != nil {
			return c, err
		}
		c.Disk += float64(d.Microseconds()) / 1000
	}
	if c.Took, err = b.runParallel(ctx, p, args); err != nil {
		return c, err
	}
	t, _, err := tracker.FolderAt(filepath.Join(p.dir, ".beads")).Read()
	if err != nil {
		return c, err
	}
	for _, it := range t.All() {
		if kept(it) {
			c.Kept++
		}
	}
	if c.Kept != b.Crowd {
		err = fmt.Errorf("%d of %d changes were kept: bd lost some", c.Kept, b.Crowd)
	}
	return c, err
}

// runParallel runs the processes in parallel and returns the milliseconds from the first
// start to the last exit.
func (b Bench) runParallel(ctx context.Context, p *fixture, args func(i int) []string) (float64, error) {
	failed := make([]error, b.Crowd)
	var group sync.WaitGroup
	begin := time.Now()
	for i := range b.Crowd {
		group.Go(func() { _, _, failed[i] = p.run(ctx, args(i)...) })
	}
	group.Wait()
	return float64(time.Since(begin).Microseconds()) / 1000, errors.Join(failed...)
}

// measureImport measures a large import into an empty tracker.
func (b Bench) measureImport(ctx context.Context, dir string) (Crowd, error) {
	c := Crowd{What: fmt.Sprintf("import of %d issues", b.Import)}
	p, err := b.newFixture(dir, 0)
	if err != nil {
		return c, err
	}
	text := Text(b.Import)
	if err := os.WriteFile(filepath.Join(dir, "many.jsonl"), []byte(text), 0o644); err != nil {
		return c, fmt.Errorf("write a file to import: %w", err)
	}
	took, _, err := p.run(ctx, "import", "-i", "many.jsonl")
	if err != nil {
		return c, err
	}
	c.Took = float64(took.Microseconds()) / 1000
	file, err := os.ReadFile(filepath.Join(dir, ".beads", "issues.jsonl"))
	if err != nil {
		return c, fmt.Errorf("read the imported issues: %w", err)
	}
	if c.Kept = strings.Count(string(file), "\n"); string(file) != text {
		return c, fmt.Errorf("the file has %d of the %d imported issues, or their text has changed", c.Kept, b.Import)
	}
	p.size = int64(len(text))
	d, err := p.write()
	c.Disk = float64(d.Microseconds()) / 1000
	if err != nil {
		return c, err
	}
	c.Starts, err = Bench{Crowd: 1, Program: b.Program}.runParallel(ctx, p, func(int) []string {
		return []string{"version"}
	})
	return c, err
}
