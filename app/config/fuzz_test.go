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

// FuzzParse checks that an accepted configuration can be printed and parsed again without a change, that
// printing hides values of variables unless requested, and that agents can be rebuilt from their
// definitions. Errors must name a line of the file.
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
				t.Fatalf("Parse() = %v, %#v; want no configuration and an *Error with problems", c, err)
			}
			lines := strings.Count(string(data), "\n") + 1
			for _, p := range e.problems {
				if p.what == "" || p.line < 0 || p.line > lines {
					t.Errorf("problem at line %d of %d: key %q, text %q", p.line, lines, p.key, p.what)
				}
			}
			return
		}
		again, err := parse("f.toml", []byte(c.TOML(true)))
		if err != nil {
			t.Fatalf("printed configuration cannot be parsed: %v\n%s", err, c.TOML(true))
		}
		if diff := cmp.Diff(strip(t, c), strip(t, again)); diff != "" {
			t.Errorf("printed and parsed again (-want +got):\n%s", diff)
		}
		redacted, err := parse("f.toml", []byte(c.TOML(false)))
		if err != nil {
			t.Fatalf("redacted configuration cannot be parsed: %v\n%s", err, c.TOML(false))
		}
		for name, a := range redacted.Agents {
			for variable, value := range a.Env {
				if value != hidden {
					t.Errorf("variable %s of agent %s is printed as %q", variable, name, value)
				}
			}
		}
		if raw, err := c.JSON(true); err != nil || !json.Valid(raw) {
			t.Errorf("JSON() = %q, %v", raw, err)
		}
		for _, a := range c.Agents {
			rebuilt(t, a)
		}
	})
}

// rebuilt checks that an agent rebuilt from its definition has the same version.
func rebuilt(t *testing.T, a *Agent) {
	t.Helper()
	kept, err := a.Definition()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Rebuild(kept, a)
	if err != nil {
		t.Fatalf("Rebuild(%s): %v", kept, err)
	}
	first, err := a.Version()
	if err != nil {
		t.Fatal(err)
	}
	if second, err := again.Version(); err != nil || second != first {
		t.Errorf("%s: version %s, rebuilt %s (%v)", kept, first, second, err)
	}
}

// FuzzRebuild checks that Rebuild returns an agent with a version, or an error without values of
// variables.
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
			t.Errorf("the error contains a secret: %v", err)
		}
	})
}
