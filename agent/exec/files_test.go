package exec_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/agent/exec"
	"mailroom/entry"
	"mailroom/internal/proc"
	"mailroom/thread"
)

// elsewhere is a source whose files are on another machine until they are fetched. Their URIs begin with
// else:.
type elsewhere struct {
	folder string
	files  map[string]string // content by name
	fails  map[string]error
	got    []string // names that were fetched
}

func newElsewhere(t *testing.T) *elsewhere {
	return &elsewhere{folder: filepath.Join(t.TempDir(), "files"), files: map[string]string{"cat.png": "a cat"},
		fails: map[string]error{}}
}

func (e *elsewhere) Path(uri string) (string, bool) {
	name, ok := strings.CutPrefix(uri, "else:")
	return filepath.Join(e.folder, name), ok
}

func (e *elsewhere) Fetch(_ context.Context, uri string) error {
	path, _ := e.Path(uri)
	name := filepath.Base(path)
	e.got = append(e.got, name)
	if err := e.fails[name]; err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(e.folder, 0o700), os.WriteFile(path, []byte(e.files[name]), 0o600))
}

// fileMessage is a message with files of the given URIs.
func fileMessage(uris ...string) (m mailroom.Message) {
	for i, uri := range uris {
		m.Parts = append(m.Parts, mailroom.Part{Type: "file", Name: fmt.Sprint("f", i), URI: uri})
	}
	return m
}

func TestACommandGetsThePathOfAFileThatIsElsewhere(t *testing.T) {
	for name, isolation := range map[string]*proc.Isolation{
		"in the folder": nil,
		"as a copy":     {Kind: proc.KindNone, User: &proc.User{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}},
	} {
		t.Run(name, func(t *testing.T) {
			if isolation != nil && os.Getuid() != 0 {
				isolation = nil // only root starts commands as another user
			}
			source := newElsewhere(t)
			s := newSession(1)
			s.input = []mailroom.Message{fileMessage("else:cat.png")}
			a := command(t, `read word name path; echo "$path"; cat "$path"`, exec.Options{Files: source.folder, Source: source,
				Isolation: isolation})
			for range 2 {
				s.messages = nil
				s.run.Checkpoint = nil
				if err := a.Run(t.Context(), s); err != nil {
					t.Fatal(err)
				}
				path, content, _ := strings.Cut(s.messages[0], "\n")
				if want := filepath.Join(source.folder, "cat.png"); content != "a cat" || (path == want) != (isolation == nil) ||
					filepath.Ext(path) != ".png" {
					t.Errorf("read %q at %s, want the content, and the path %s unless it is a copy", content, path, want)
				}
			}
			if diff := cmp.Diff([]string{"cat.png"}, source.got); diff != "" {
				t.Errorf("fetched by two runs (-want +got):\n%s", diff)
			}
			if uri := s.input[0].Parts[0].URI; uri != "else:cat.png" {
				t.Errorf("the session's message has now the URI %s", uri)
			}
		})
	}
}

func TestACommandLearnsWhyAFileIsNotAvailable(t *testing.T) {
	source := newElsewhere(t)
	source.fails["old"] = mailroom.Errorf(mailroom.CodeNotFound, "it has expired")
	source.fails["odd"] = errors.New("system text")
	s := newSession(1)
	s.input = []mailroom.Message{fileMessage("else:old", "else:odd", "https://files.example/x", "else:old")}
	s.input[0].Parts[0].Name = "a\nb"
	if err := command(t, "cat", exec.Options{Files: source.folder, Source: source}).Run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	want := "(file a b is not available: it has expired)\n(file f1 is not available: it cannot be read)\nfile f2 https://files.example/x\n(file f3 is not available: it has expired)"
	if diff := cmp.Diff([]string{want}, s.messages); diff != "" {
		t.Errorf("input (-want +got):\n%s", diff)
	}
	if len(source.got) != 2 {
		t.Errorf("fetched %q, want each once", source.got)
	}
}

func TestTheLatestFilesAreFetchedWithinALimit(t *testing.T) {
	source := newElsewhere(t)
	s := newSession(1)
	for i := range 60 {
		s.input = append(s.input, fileMessage(fmt.Sprint("else:", i)))
	}
	if err := command(t, "cat", exec.Options{Files: source.folder, Source: source}).Run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(s.messages[0], "\n")
	if len(source.got) != 50 || !strings.Contains(lines[9], "is not available: the conversation has more than 50 files") ||
		lines[10] != "file f0 "+filepath.Join(source.folder, "10") {
		t.Errorf("fetched %d files, lines %q and %q; want the last 50", len(source.got), lines[9], lines[10])
	}
}

func TestAnOutageOfTheFilesIsAnOutageOfTheRun(t *testing.T) {
	source := newElsewhere(t)
	source.fails["cat.png"] = mailroom.Errorf(mailroom.CodeUnavailable, "no answer")
	s := newSession(1)
	s.input = []mailroom.Message{fileMessage("else:cat.png")}
	f := mailroom.AsFailure(command(t, "cat", exec.Options{Files: source.folder, Source: source}).Run(t.Context(), s))
	if f.Class != mailroom.ClassUnavailable || s.steps != nil {
		t.Errorf("failure %v after the steps %v, want unavailable before the start", f, s.steps)
	}
}

func TestAProgramGetsThePathsOfFilesInEveryMessage(t *testing.T) {
	source := newElsewhere(t)
	h := newFixture(t, "", func(o *exec.ProgramOptions) { o.Files, o.Source = source.folder, source })
	withFile := func(name string, mode mailroom.Mode) func(*thread.Submit) {
		return func(in *thread.Submit) {
			in.Mode = mode
			in.Messages[0].Parts = append(in.Messages[0].Parts, mailroom.Part{Type: "file", Name: name, URI: "else:" + name})
		}
	}
	line := func(name string) string { return "file " + name + " " + filepath.Join(source.folder, name) }
	run := h.send("steered", "!hold")
	h.await("steered", run, entry.KindToolStarted)
	h.send("steered", "and this", withFile("dog.png", mailroom.ModeSteer))
	if got, want := h.reply("steered", run), "1: and this\n"+line("dog.png"); got != want {
		t.Errorf("reply to the steered file is %q, want %q", got, want)
	}

	if got, want := h.reply("t", h.send("t", "see", withFile("cat.png", ""))), "1: see\n"+line("cat.png"); got != want {
		t.Errorf("reply to the file is %q, want %q", got, want)
	}
	session := bodies[exec.Session](h, "t", exec.KindSession)[0].Session
	if err := errors.Join(os.Remove(h.home+"/"+session), os.Remove(filepath.Join(source.folder, "cat.png"))); err != nil {
		t.Fatal(err)
	}
	h.reply("t", h.send("t", "again"))
	if _, err := os.Stat(filepath.Join(source.folder, "cat.png")); err != nil {
		t.Errorf("file of the transcript: %v", err)
	}
	session = bodies[exec.Session](h, "t", exec.KindSession)[1].Session
	if got := h.requests(session)[0]; !strings.Contains(got, line("cat.png")) {
		t.Errorf("the transcript is %s, want the path of the file", got)
	}
}
