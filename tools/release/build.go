package main

import (
	"bytes"
	"cmp"
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// platform is a system and a processor, named as Go does.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

// all returns the platforms of a release.
func all() []platform {
	return []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}
}

// parsePlatforms reads platforms between commas. "" is all of them.
func parsePlatforms(s string) ([]platform, error) {
	if s == "" {
		return all(), nil
	}
	var some []platform
	for name := range strings.SplitSeq(s, ",") {
		i := slices.IndexFunc(all(), func(p platform) bool { return p.String() == name })
		if i < 0 {
			return nil, fmt.Errorf("no release is made for platform %q; use some of %v", name, all())
		}
		some = append(some, all()[i])
	}
	return some, nil
}

// program are the commands of a platform.
type program struct {
	platform
	mailroom, bd string // files
	info         *debug.BuildInfo
}

// build compiles the commands of a platform.
func (r *release) build(ctx context.Context, p platform) (program, error) {
	b := program{platform: p}
	dir := filepath.Join(r.work, p.os+"-"+p.arch)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return b, err
	}
	module, err := r.command(ctx, p, "go", "list", "-m")
	if err != nil {
		return b, err
	}
	mark := strings.Join([]string{r.version, r.commit, r.time.Format(time.RFC3339)}, " ")
	// Tables of time zones are linked in, because an image without files and some systems have none.
	_, err = r.command(ctx, p, "go", "build", "-trimpath", "-buildvcs=false", "-tags=timetzdata",
		"-ldflags=-s -w -X '"+module+"/internal/version.built="+mark+"'", "-o", dir+"/", "./cmd/mailroom", "./cmd/bd")
	if err != nil {
		return b, err
	}
	b.mailroom, b.bd = filepath.Join(dir, "mailroom"), filepath.Join(dir, "bd")
	b.info, err = buildinfo.ReadFile(b.mailroom)
	return b, err
}

// command runs a command in the root of the tree, with settings of Go that the machine or its user may not change, and
// returns its output without the last line end.
func (r *release) command(ctx context.Context, p platform, name string, args ...string) (string, error) {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stderr = r.root, &stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.os, "GOARCH="+p.arch, "GOAMD64=v1", "GOARM64=v8.0",
		"GOEXPERIMENT=", "GOFLAGS=", "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", filepath.Base(name), strings.Join(args, " "), err,
			strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

// readExtras returns the documents, the units of systemd and the completions of shells.
func (r *release) readExtras(ctx context.Context, built []program) ([]entry, error) {
	extras := []entry{{name: "NOTICES", data: r.notices}}
	add := func(name, file string) error {
		data, err := os.ReadFile(filepath.Join(r.root, filepath.FromSlash(file)))
		extras = append(extras, entry{name: name, data: data})
		return err
	}
	for _, name := range []string{"README.md", "LICENSE", "CHANGELOG.md"} {
		if err := add(name, name); err != nil {
			return nil, err
		}
	}
	for _, folder := range []string{"systemd/", "systemd/user/"} {
		units, err := filepath.Glob(filepath.Join(r.root, "deploy", filepath.FromSlash(folder), "*.service"))
		if err != nil {
			return nil, err
		}
		for _, unit := range units {
			if err := add(folder+filepath.Base(unit), "deploy/"+folder+filepath.Base(unit)); err != nil {
				return nil, err
			}
		}
	}
	completions, err := r.completions(ctx, built)
	return append(extras, completions...), err
}

// completions asks the programs for the scripts of shells. It builds them for this machine if the release has none that
// it can run.
func (r *release) completions(ctx context.Context, built []program) ([]entry, error) {
	here := platform{runtime.GOOS, runtime.GOARCH}
	var b program
	if i := slices.IndexFunc(built, func(b program) bool { return b.platform == here }); i >= 0 {
		b = built[i]
	} else if other, err := r.build(ctx, here); err == nil {
		b = other
	} else {
		return nil, err
	}
	var list []entry
	for _, c := range []struct{ shell, prefix, suffix string }{{"bash", "", ""}, {"zsh", "_", ""}, {"fish", "", ".fish"}} {
		for name, file := range map[string]string{"mailroom": b.mailroom, "bd": b.bd} {
			text, err := r.command(ctx, here, file, "completion", c.shell)
			if err != nil {
				return nil, err
			}
			at := "completions/" + c.shell + "/" + c.prefix + name + c.suffix
			list = append(list, entry{name: at, data: []byte(text + "\n")})
		}
	}
	slices.SortFunc(list, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	return list, nil
}
