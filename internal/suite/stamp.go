package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// stamp is all that a step reads: a hash or another mark of the content, by name. A step whose stamp is the one of its
// last pass is not run again, as go test does not repeat a test.
//
// It contains too much rather than too little, because a stamp that lacks something reports a pass that never was:
// every file of the tree, whether it is committed or not, the built programs, the installed packages, the programs of
// the system, and every environment variable.
type stamp map[string]string

// passedFolder has the stamps of the last passes. It is in bin, so that a new clone and make clean begin without any.
const passedFolder = "bin/passed"

// builtPrograms are files that git ignores and steps run.
const builtPrograms = "bin/mailroom bin/bd bin/fakes"

// systemPrograms are programs that tests start.
const systemPrograms = "sh make git cc node npm chromium chromium-browser google-chrome chromium-headless-shell " +
	"ngircd exim4 exim caddy nginx python3 openssl curl initdb"

// ownVariables describe the shell that started make and its folder, or the terminal of make.
const ownVariables = "_ SHLVL PWD OLDPWD MAKE_TERMOUT MAKE_TERMERR"

// everyFile is for a step that reads Go code.
func everyFile(string) bool { return true }

// withoutGo is for a step in Node, which sees Go code only as the programs that were built from it, except for the file
// beside the JavaScript client.
func withoutGo(file string) bool {
	return !strings.HasSuffix(file, ".go") || strings.HasPrefix(file, "clients/js/")
}

// takeStamp returns the stamp of a step. It fails in a tree that git does not know.
func takeStamp(ctx context.Context, tree string, st step) (stamp, error) {
	s := stamp{"the command": strings.Join(st.args, " ")}
	for _, setting := range environment(os.Environ()) {
		if name, value, _ := strings.Cut(setting, "="); !has(ownVariables, name) {
			s["the variable "+name] = hash([]byte(value)) // which may be a secret
		}
	}
	s.addSystem(os.Getenv("CHROMIUM"))
	goCommand := cmp.Or(os.Getenv("GO"), "go")
	// In the PATH, a script may stand for node and choose a version.
	asked := [][]string{{goCommand, "env", "GOVERSION"}, {goCommand, "env", "-changed"}, {"node", "--version"}}
	for _, args := range asked {
		out, err := output(ctx, tree, args[0], args[1:]...)
		if err != nil {
			return nil, err
		}
		s["the output of "+strings.Join(args, " ")] = hash(out)
	}
	list, err := output(ctx, tree, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	for file := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		if st.reads(file) {
			if err := s.addFile(tree, file); err != nil {
				return nil, err
			}
		}
		if path.Base(file) == "package-lock.json" {
			err := s.addPackages(tree, path.Join(path.Dir(file), "node_modules"))
			if err != nil {
				return nil, err
			}
		}
	}
	for file := range strings.FieldsSeq(builtPrograms) {
		if err := s.addFile(tree, file); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// addSystem adds the programs of the system, and chromium, a further one. A package manager keeps the time of their
// build in their files. The list of Debian's packages covers what they load, such as libraries and fonts.
func (s stamp) addSystem(chromium string) {
	for _, file := range []string{"/proc/sys/kernel/osrelease", "/var/lib/dpkg/status"} {
		if content, err := os.ReadFile(file); err == nil { // other systems have none
			s[file] = hash(content)
		}
	}
	clusters, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres") // the pattern is well-formed
	for _, name := range append(append(clusters, chromium), strings.Fields(systemPrograms)...) {
		for _, candidate := range []string{name, "/usr/sbin/" + name} {
			file, err := exec.LookPath(candidate)
			if err != nil {
				continue
			}
			if real, err := filepath.EvalSymlinks(file); err == nil {
				s["the program "+name] = mark(real)
			}
			break
		}
	}
}

// addPackages adds the npm packages in a folder: the list that npm keeps in it, and when make has installed them.
func (s stamp) addPackages(tree, folder string) error {
	s[folder] = mark(filepath.Join(tree, folder, ".ready"))
	return s.addFile(tree, path.Join(folder, ".package-lock.json"))
}

// addFile adds a file of the tree, which may be absent: then it was deleted, or is not installed.
func (s stamp) addFile(tree, file string) error {
	name := filepath.Join(tree, file)
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s[file] = "absent"
		return nil
	case err != nil:
		return err
	case info.Mode().Type() == fs.ModeSymlink:
		to, err := os.Readlink(name)
		s[file] = "to " + to
		return err
	}
	content, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	s[file] = fmt.Sprintf("%s %s", info.Mode(), hash(content))
	return nil
}

// has reports whether a list of names, separated by spaces, has a name.
func has(list, name string) bool { return slices.Contains(strings.Fields(list), name) }

// mark returns what changes if a file is replaced: its path, its size and its time.
func mark(file string) string {
	info, err := os.Stat(file)
	if err != nil {
		return "absent"
	}
	return fmt.Sprintf("%s %d %s", file, info.Size(), info.ModTime().UTC().Format("2006-01-02T15:04:05.999999999"))
}

func hash(content []byte) string { return fmt.Sprintf("%x", sha256.Sum256(content)) }

// output runs a program in a folder and returns what it prints. Its error has what the program said.
func output(ctx context.Context, folder, program string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = folder
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, strings.TrimSpace(said.String()))
	}
	return out, nil
}

// difference returns the first name, in order, whose content differs from then, or "" if all is the same.
func (s stamp) difference(then stamp) string {
	names := maps.Clone(s)
	maps.Copy(names, then)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		now, is := s[name]
		before, was := then[name]
		if now != before || is != was {
			return name
		}
	}
	return ""
}

// stampFile returns the file of the stamp of a step.
func stampFile(tree, name string) string { return filepath.Join(tree, passedFolder, name+".json") }

// readStamp returns the stamp of the last pass of a step, and when that was; nil if it has not passed.
func readStamp(file string) (s stamp, when string, err error) {
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	if err := json.Unmarshal(content, &s); err != nil {
		return nil, "", fmt.Errorf("%s: %w", file, err)
	}
	info, err := os.Stat(file)
	if err != nil {
		return nil, "", err
	}
	return s, info.ModTime().Format("2006-01-02 15:04"), nil
}

// write writes the stamp in one piece, so that an interrupt leaves none or a whole one.
func (s stamp) write(file string) error {
	content, err := json.MarshalIndent(s, "", "\t")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		return err
	}
	if err := os.WriteFile(file+".new", content, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}
