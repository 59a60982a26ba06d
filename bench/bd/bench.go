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

	"mailroom/tracker"
)

// Bench says what to measure. All of it is bounded: a run ends by itself.
type Bench struct {
	Program []string // how bd is called; its arguments follow
	Dir     string   // a tracker's folder is made in it, and removed; "" is the system's for temporary files
	Sizes   []int    // trackers of so many issues
	Rounds  int      // how often each command runs on each of them
	Crowd   int      // processes at once, for the parallel part
	Import  int      // issues of the file that is imported
	Tell    func(format string, args ...any)
}

// Report is what was measured.
type Report struct {
	Commands []Row   `json:"commands"`
	Crowds   []Crowd `json:"parallel"`
	Grown    []File  `json:"files"` // of the trackers, but for issues.jsonl
}

// File is one that a tracker's folder has at the end.
type File struct {
	Issues int    `json:"issues"`
	Name   string `json:"name"`
	Size   int64  `json:"size"` // bytes
}

// Run measures. The folder it works in is gone when it returns.
func (b Bench) Run(ctx context.Context) (report Report, err error) {
	dir, err := os.MkdirTemp(b.Dir, "bd-bench-*")
	if err != nil {
		return report, fmt.Errorf("make a folder to measure in: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var places []*place
	for _, n := range b.Sizes {
		p, err := b.newPlace(filepath.Join(dir, fmt.Sprintf("of-%d", n)), n)
		if err != nil {
			return report, err
		}
		places = append(places, p)
	}
	if report.Commands, err = b.commands(ctx, places); err != nil {
		return report, err
	}
	for _, p := range places {
		grown, err := p.others()
		if err != nil {
			return report, err
		}
		report.Grown = append(report.Grown, grown...)
	}
	report.Crowds, err = b.crowds(ctx, dir)
	return report, err
}

// place is a tracker that is measured.
type place struct {
	program []string
	dir     string
	issues  int
	size    int64 // bytes of its file, at the beginning
}

func (b Bench) newPlace(dir string, n int) (*place, error) {
	p := &place{program: b.Program, dir: dir, issues: n}
	beads := tracker.FolderAt(filepath.Join(dir, ".beads"))
	if err := beads.Init(); err != nil {
		return nil, err
	}
	text := Text(n)
	p.size = int64(len(text))
	if err := os.WriteFile(beads.File(), []byte(text), 0o644); err != nil {
		return nil, fmt.Errorf("make a tracker to measure: %w", err)
	}
	return p, nil
}

// others are the files of the folder, but for the one with the issues.
func (p *place) others() (found []File, err error) {
	entries, err := os.ReadDir(filepath.Join(p.dir, ".beads"))
	if err != nil {
		return nil, fmt.Errorf("look at the tracker: %w", err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return nil, fmt.Errorf("look at the tracker: %w", err)
		}
		if e.Name() != "issues.jsonl" {
			found = append(found, File{p.issues, e.Name(), info.Size()})
		}
	}
	return found, nil
}

// answer is the beginning of an output. To keep all of a long one would take
// longer than it takes to be made.
type answer struct{ text []byte }

func (a *answer) Write(p []byte) (int, error) {
	const most = 4096
	a.text = append(a.text, p[:min(len(p), max(0, most-len(a.text)))]...)
	return len(p), nil
}

// process makes a process of bd in the place. Its output is read, as a caller
// would.
func (p *place) process(ctx context.Context, args ...string) (cmd *exec.Cmd, out *answer) {
	out = &answer{}
	all := append(p.program[1:len(p.program):len(p.program)], args...)
	cmd = exec.CommandContext(ctx, p.program[0], all...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, out, out
	cmd.Env = append(os.Environ(), "BD_ACTOR=bench", "BEADS_DIR=", "BD_JSON=", "AGENT_MAIL_URL=")
	return cmd, out
}

// run is how long a whole process of bd takes, from before its start until it is
// gone and its output was read.
func (p *place) run(ctx context.Context, args ...string) (time.Duration, string, error) {
	cmd, out := p.process(ctx, args...)
	begin := time.Now()
	err := cmd.Run()
	took := time.Since(begin)
	if err != nil {
		return took, "", fmt.Errorf("bd %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out.text)))
	}
	return took, string(out.text), nil
}

// write is how long the disk takes for what every change of the tracker asks of
// it: a file written and synced, renamed, and the folder synced.
func (p *place) write() (took time.Duration, err error) {
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

// start is how long any process takes that does nothing.
func (p *place) start(ctx context.Context) (time.Duration, error) {
	cmd := exec.CommandContext(ctx, "true")
	cmd.Stdout, cmd.Stderr = io.Discard, io.Discard
	begin := time.Now()
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("start a process that does nothing: %w", err)
	}
	return time.Since(begin), nil
}
