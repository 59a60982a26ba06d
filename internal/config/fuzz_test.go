package config

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzParse: what is taken is printed so that it loads again as the same, with
// no value of a variable unless that is asked for, and its agents can be kept and
// rebuilt; what is refused is refused in lines that name the file.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.toml")
	if err != nil || len(files) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parse("f.toml", data)
		if err != nil {
			e, ok := errors.AsType[*Error](err)
			if !ok || len(e.problems) == 0 || c != nil {
				t.Fatalf("got %v and the error %#v", c, err)
			}
			lines := strings.Count(string(data), "\n") + 1
			for _, p := range e.problems {
				if p.what == "" || p.line < 0 || p.line > lines {
					t.Errorf("line %d of %d: %q %q", p.line, lines, p.key, p.what)
				}
			}
			return
		}
		again, err := parse("f.toml", []byte(c.TOML(true)))
		if err != nil {
			t.Fatalf("what was printed cannot be loaded: %v\n%s", err, c.TOML(true))
		}
		if diff := cmp.Diff(strip(t, c), strip(t, again)); diff != "" {
			t.Errorf("after printing and loading (-want +got):\n%s", diff)
		}
		shy, err := parse("f.toml", []byte(c.TOML(false)))
		if err != nil {
			t.Fatalf("what was printed for others cannot be loaded: %v\n%s", err, c.TOML(false))
		}
		for name, a := range shy.Agents {
			for variable, value := range a.Env {
				if value != hidden {
					t.Errorf("%s of %s is printed as %q", variable, name, value)
				}
			}
		}
		if raw, err := c.JSON(true); err != nil || !json.Valid(raw) {
			t.Errorf("as JSON it is %q (%v)", raw, err)
		}
		for _, a := range c.Agents {
			rebuilt(t, a)
		}
	})
}

// rebuilt checks that an agent is the same when its definition was kept.
func rebuilt(t *testing.T, a *Agent) {
	t.Helper()
	kept, err := a.Definition()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Rebuild(kept, a)
	if err != nil {
		t.Fatalf("%s is not rebuilt: %v", kept, err)
	}
	first, err := a.Version()
	if err != nil {
		t.Fatal(err)
	}
	if second, err := again.Version(); err != nil || second != first {
		t.Errorf("%s has the version %s, rebuilt %s (%v)", kept, first, second, err)
	}
}

// FuzzRebuild: whatever was kept, it is an agent with a version or an error that
// tells no value of a variable.
func FuzzRebuild(f *testing.F) {
	for _, kept := range []string{
		`{"kind":"echo","pace":"7ms"}`, `{"kind":"exec","command":["cat"],"env":{"KEY":"0"},"idle_timeout":"1m"}`,
		`{"kind":"robot"}`, `{"kind":"exec","env":7}`, `{"kind":7}`, `[]`, `{`, `null`,
	} {
		f.Add([]byte(kept))
	}
	f.Fuzz(func(t *testing.T, kept []byte) {
		present := newAgent(KindExec)
		present.Env = map[string]string{"KEY": "a-secret-of-the-test"}
		a, err := Rebuild(kept, present)
		if err == nil {
			rebuilt(t, a)
		} else if strings.Contains(err.Error(), present.Env["KEY"]) {
			t.Errorf("the error tells a secret: %v", err)
		}
	})
}
