package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// fuzzPackage is a package with fuzz targets.
type fuzzPackage struct {
	path    string // import path of the package
	dir     string
	targets []string
}

// keep drops the targets that do not match the pattern.
func (p *fuzzPackage) keep(pattern string) {
	p.targets = slices.DeleteFunc(p.targets, func(name string) bool {
		matches, err := path.Match(pattern, name)
		return err != nil || !matches
	})
}

// declaration matches the first line of a fuzz target.
var declaration = regexp.MustCompile(`(?m)^func (Fuzz\w*)\(`)

// list returns the packages of the module with fuzz targets. It reads the sources: go test -list would compile every
// package to answer.
func list(ctx context.Context) ([]*fuzzPackage, error) {
	const format = "{{.ImportPath}}\t{{.Dir}}{{range .TestGoFiles}}\t{{.}}{{end}}{{range .XTestGoFiles}}\t{{.}}{{end}}"
	out, err := goCommand(ctx, "list", "-f", format, "./...")
	if err != nil {
		return nil, err
	}
	var found []*fuzzPackage
	for line := range strings.Lines(out) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		p := &fuzzPackage{path: fields[0], dir: fields[1]}
		for _, file := range fields[2:] {
			source, err := os.ReadFile(filepath.Join(p.dir, file))
			if err != nil {
				return nil, err
			}
			for _, match := range declaration.FindAllSubmatch(source, -1) {
				p.targets = append(p.targets, string(match[1]))
			}
		}
		if len(p.targets) > 0 {
			found = append(found, p)
		}
	}
	return found, nil
}

// cacheFolder returns where go test keeps the inputs that it found interesting.
func cacheFolder(ctx context.Context) (string, error) {
	out, err := goCommand(ctx, "env", "GOCACHE")
	if err != nil {
		return "", err
	}
	return filepath.Join(strings.TrimSpace(out), "fuzz"), nil
}

func goCommand(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", args...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", fmt.Errorf("go %s: %w: %.2000s", args[0], err, exit.Stderr)
	}
	return string(out), err
}
