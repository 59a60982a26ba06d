package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Stdout, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// settings say what to build.
type settings struct {
	root       string // of the tree
	out        string // folder of the files, which is replaced
	version    string // such as "0.1.0"
	base       string // address that the files will be under, or ""
	maintainer string // of the packages, a name and an address
	key        string // of minisign, or ""
	password   string // of key
	platforms  []platform
}

// source is the commit that a release is built of.
type source struct {
	commit string // in full
	time   time.Time
}

func run(ctx context.Context, out io.Writer, args []string) error {
	s := settings{key: os.Getenv("MAILROOM_SIGNING_KEY"), password: os.Getenv("MAILROOM_SIGNING_PASSWORD")}
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.StringVar(&s.root, "root", ".", "root of the tree")
	flags.StringVar(&s.out, "out", "bin/release", "folder for the files; what it has is removed")
	flags.StringVar(&s.version, "version", "", "version, such as 0.1.0 or 0.1.0-rc.1")
	flags.StringVar(&s.base, "base", "", "address that the files will be published under, if there is one")
	flags.StringVar(&s.maintainer, "maintainer", "", "who looks after the packages, as \"name <address>\"")
	only := flags.String("platforms", "", "some of the platforms, such as linux/amd64 (default all)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var err error
	if s.platforms, err = parsePlatforms(*only); err != nil {
		return err
	}
	if s.root, err = filepath.Abs(s.root); err != nil {
		return err
	}
	if s.out, err = filepath.Abs(s.out); err != nil {
		return err
	}
	// The domain is reserved for names that do not exist, because packages need an address and there may be none.
	s.maintainer = cmp.Or(s.maintainer, "Mailroom maintainers <maintainers@mailroom.invalid>")
	if err := errors.Join(s.checkVersion(), s.checkBase()); err != nil {
		return err
	}
	return s.make(ctx, out)
}

// checkVersion refuses a version that is not the one of the tree, or a pre-release of it, and one without notes.
func (s settings) checkVersion() error {
	number, err := numberOf(filepath.Join(s.root, "internal/version/version.go"))
	if err != nil {
		return err
	}
	before, pre, isPre := strings.Cut(s.version, "-")
	if before != number || isPre && !isPrerelease(pre) || strings.Contains(s.version, "+") {
		return fmt.Errorf("version %q is not of this tree; use VERSION=%s, or a pre-release such as %[2]s-rc.1, "+
			"or change Number in internal/version", s.version, number)
	}
	if isPre {
		return nil
	}
	notes, err := os.ReadFile(filepath.Join(s.root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	if !strings.Contains(string(notes), "\n## "+s.version+"\n") {
		return fmt.Errorf("CHANGELOG.md has no section %q", s.version)
	}
	return nil
}

// checkBase refuses an address that a script could not have between quotes.
func (s settings) checkBase() error {
	if s.base == "" || regexp.MustCompile(`^(https?|file)://[A-Za-z0-9._~:/%-]+$`).MatchString(s.base) {
		return nil
	}
	return fmt.Errorf("base address %q is none; use an address such as https://example.org/mailroom", s.base)
}

// numberOf reads the constant Number of internal/version.
func numberOf(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	_, rest, _ := strings.Cut(string(text), "\nconst Number = \"")
	number, _, ok := strings.Cut(rest, "\"\n")
	if !ok {
		return "", fmt.Errorf("%s has no constant Number", file)
	}
	return number, nil
}

// isPrerelease reports whether s is identifiers of letters and digits between dots.
func isPrerelease(s string) bool {
	for part := range strings.SplitSeq(s, ".") {
		if part == "" || strings.ContainsFunc(part, func(r rune) bool {
			return (r < '0' || r > '9') && (r < 'a' || r > 'z')
		}) {
			return false
		}
	}
	return true
}

// make builds all files.
func (s settings) make(ctx context.Context, out io.Writer) error {
	from, changed, err := readSource(ctx, s.root)
	if err != nil {
		return err
	}
	if changed != "" {
		return fmt.Errorf("the tree has changes that are in no commit: %s", changed)
	}
	key, err := s.readKey()
	if err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(s.out), os.MkdirAll(s.out, 0o755)); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "mailroom-release-")
	if err != nil {
		return err
	}
	r := release{settings: s, source: from, work: work, log: out}
	err = r.files(ctx)
	if err == nil {
		err = r.sums(key)
	}
	return errors.Join(err, os.RemoveAll(work))
}

// release is a release at work.
type release struct {
	settings
	source
	work     string // folder for what is on the way
	log      io.Writer
	licenses licenses
	notices  []byte  // texts of all licences
	extras   []entry // files that archives and packages have beside the programs, as names of an archive
}

// files writes each file of the release but the checksums.
func (r *release) files(ctx context.Context) error {
	var err error
	if r.licenses, err = readLicenses(r.root); err != nil {
		return err
	}
	var built []program
	for _, p := range r.platforms {
		fmt.Fprintf(r.log, "building %s\n", p)
		b, err := r.build(ctx, p)
		if err != nil {
			return err
		}
		built = append(built, b)
	}
	if r.notices, err = r.writeNotices(ctx, built); err != nil {
		return err
	}
	if r.extras, err = r.readExtras(ctx, built); err != nil {
		return err
	}
	var linux []program
	for _, b := range built {
		if err := ctx.Err(); err != nil {
			return err
		}
		err = errors.Join(r.writeArchive(b), r.writeBOM(b))
		if b.os == "linux" {
			linux = append(linux, b)
			err = errors.Join(err, r.writePackages(b))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", b.platform, err)
		}
	}
	if err := r.writeImage(linux); err != nil {
		return fmt.Errorf("image: %w", err)
	}
	return r.writeScript()
}

// readSource returns the commit of the tree at root, and what git says is changed, "" for nothing.
func readSource(ctx context.Context, root string) (source, string, error) {
	git := func(args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Dir, cmd.Stderr = root, os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return "", fmt.Errorf("git %s: %w; a release is built in a clone", args[0], err)
		}
		return strings.TrimSpace(string(out)), nil
	}
	changed, err := git("status", "--porcelain")
	if err != nil {
		return source{}, "", err
	}
	log, err := git("log", "-1", "--format=%H %ct")
	if err != nil {
		return source{}, "", err
	}
	var s source
	var seconds int64
	if _, err := fmt.Sscanf(log, "%s %d", &s.commit, &seconds); err != nil {
		return source{}, "", fmt.Errorf("git log answered %q: %w", log, err)
	}
	s.time = time.Unix(seconds, 0).UTC()
	return s, changed, nil
}
