package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"mailroom/issues/tracker"
)

// Bench configures the measurement.
type Bench struct {
	Program []string // the command line of bd, without a subcommand
	Dir     string   // parent of the temporary trackers; "": the system's temporary folder
	Sizes   []int    // numbers of issues of the trackers
	Rounds  int      // runs of each command on each tracker
	Crowd   int      // number of parallel processes
	Import  int      // number of issues to import
	Logf    func(format string, args ...any)
}

// Report contains the results.
type Report struct {
	Commands []Row   `json:"commands"`
	Crowds   []Crowd `json:"parallel"`
	Grown    []File  `json:"files"` // files in the tracker folders, except issues.jsonl
}

// File describes a file in a tracker's folder after the measurement.
type File struct {
	Issues int    `json:"issues"`
	Name   string `json:"name"`
	Size   int64  `json:"size"` // bytes
}

// Run measures in a temporary folder, which it removes.
func (b Bench) Run(ctx context.Context) (report Report, err error) {
	dir, err := os.MkdirTemp(b.Dir, "bd-bench-*")
	if err != nil {
		return report, fmt.Errorf("create the benchmark folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var fixtures []*fixture
	for _, n := range b.Sizes {
		p, err := b.newFixture(filepath.Join(dir, fmt.Sprintf("of-%d", n)), n)
		if err != nil {
			return report, err
		}
		fixtures = append(fixtures, p)
	}
	if report.Commands, err = b.commands(ctx, fixtures); err != nil {
		return report, err
	}
	for _, p := range fixtures {
		grown, err := p.otherFiles()
		if err != nil {
			return report, err
		}
		report.Grown = append(report.Grown, grown...)
	}
	report.Crowds, err = b.crowds(ctx, dir)
	return report, err
}

// fixture is a tracker under measurement.
type fixture struct {
	program []string
	dir     string
	issues  int
	size    int64 // bytes of its file at the start
}

func (b Bench) newFixture(dir string, n int) (*fixture, error) {
	p := &fixture{program: b.Program, dir: dir, issues: n}
	beads := tracker.FolderAt(filepath.Join(dir, ".beads"))
	if err := beads.Init(); err != nil {
		return nil, err
	}
	text := Text(n)
	p.size = int64(len(text))
	if err := os.WriteFile(beads.File(), []byte(text), 0o644); err != nil {
		return nil, fmt.Errorf("create a tracker: %w", err)
	}
	return p, nil
}

// otherFiles returns the files of the folder except issues.jsonl.
func (p *fixture) otherFiles() (found []File, err error) {
	entries, err := os.ReadDir(filepath.Join(p.dir, ".beads"))
	if err != nil {
		return nil, fmt.Errorf("list the tracker folder: %w", err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return nil, fmt.Errorf("list the tracker folder: %w", err)
		}
		if e.Name() != "issues.jsonl" {
			found = append(found, File{p.issues, e.Name(), info.Size()})
		}
	}
	return found, nil
}

// answer keeps the beginning of a program's output. Keeping all of a long output would distort the measurement.
type answer struct{ text []byte }

func (a *answer) Write(p []byte) (int, error) {
	const most = 4096
	a.text = append(a.text, p[:min(len(p), max(0, most-len(a.text)))]...)
	return len(p), nil
}

// process returns a command that runs bd in the tracker's folder. Its output is read,
// as a caller would do.
func (p *fixture) process(ctx context.Context, args ...string) (cmd *exec.Cmd, out *answer) {
	out = &answer{}
	all := append(p.program[1:len(p.program):len(p.program)], args...)
	cmd = exec.CommandContext(ctx, p.program[0], all...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, out, out
	cmd.Env = append(os.Environ(), "BD_ACTOR=bench", "BEADS_DIR=", "BD_JSON=", "AGENT_MAIL_URL=")
	return cmd, out
}

// run runs bd and returns the time from before its start until it has exited and its
// output is read.
func (p *fixture) run(ctx context.Context, args ...string) (time.Duration, string, error) {
	cmd, out := p.process(ctx, args...)
	begin := time.Now()
	err := cmd.Run()
	took := time.Since(begin)
	if err != nil {
		return took, "", fmt.Errorf("bd %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out.text)))
	}
	return took, string(out.text), nil
}

// write measures the disk operations that every change of the tracker does: write and sync a file, rename the file,
// sync the folder.
func (p *fixture) write() (took time.Duration, err error) {
	file := filepath.Join(p.dir, "bare")
	text := bytes.Repeat([]byte{'x'}, int(p.size))
	begin := time.Now()
	out, err := os.Create(file + ".tmp")
	if err != nil {
		return 0, fmt.Errorf("write: %w", err)
	}
	_, err = out.Write(text)
	err = errors.Join(err, out.Sync(), out.Close(), os.Rename(file+".tmp", file))
	dir, opened := os.Open(p.dir)
	if opened == nil {
		err = errors.Join(err, dir.Sync(), dir.Close())
	}
	if err = errors.Join(err, opened); err != nil {
		return 0, fmt.Errorf("write: %w", err)
	}
	return time.Since(begin), nil
}

// start measures how long a process that does nothing takes to start and end.
func (p *fixture) start(ctx context.Context) (time.Duration, error) {
	cmd := exec.CommandContext(ctx, "true")
	cmd.Stdout, cmd.Stderr = io.Discard, io.Discard
	begin := time.Now()
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("start a process that does nothing: %w", err)
	}
	return time.Since(begin), nil
}
