package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestServerOfARepositoryIsIgnoredUntilTrusted checks that commands do not contact a server that a
// repository names, and warn once, until the user trusts exactly these settings in exactly this
// folder.
func TestServerOfARepositoryIsIgnoredUntilTrusted(t *testing.T) {
	s := newMailServer(t)
	a := newAgent(t, s.URL)
	a.env = map[string]string{"AGENT_MAIL_URL": ""}
	a.write("config.toml", fmt.Sprintf("prefix = \"x\"\n\n[mail]\nurl = %q\nproject = \"roof\"\n", s.URL))
	a.do("ann", "create", "one", "--id", "x-1")
	ignored := func(when string) {
		t.Helper()
		for _, args := range [][]string{{"update", "x-1", "--claim"}, {"close", "x-1"}, {"reopen", "x-1"}, {"info"}} {
			got := a.do("ann", args...)
			if got.code != 0 || len(got.warnings) != 1 || !strings.Contains(got.warnings[0],
				"is not trusted; its mail settings are ignored (show them with: bd trust --show; trust them with: bd trust)") {
				t.Errorf("%s: bd %v: exit %d, %q", when, args, got.code, got.warnings)
			}
		}
		if calls := s.seen(); len(calls) > 0 {
			t.Errorf("%s: requests %v, want none", when, calls)
		}
		if got := a.do("ann", "trust", "--show"); !strings.Contains(got.out, `"trusted": false`) ||
			!strings.Contains(got.out, `"url": "`) {
			t.Errorf("%s: %s", when, got.out)
		}
	}
	asked := func(when string) {
		t.Helper()
		a.must("ann", "update", "x-1", "--claim")
		a.must("ann", "update", "x-1", "--status", "open")
		if calls := s.seen(); len(calls) == 0 {
			t.Errorf("%s: no requests", when)
		}
	}
	ignored("at first")
	a.must("ann", "trust")
	asked("when it is trusted")
	a.must("ann", "trust", "--revoke")
	ignored("when trust is revoked")
	a.must("ann", "trust")
	a.write("config.toml", fmt.Sprintf("prefix = \"x\"\n\n[mail]\nurl = %q\nproject = \"other\"\n", s.URL))
	ignored("when the settings are others")
	a.must("ann", "trust")
	a.must("ann", "rename-prefix", "y") // writes the settings
	a.must("ann", "rename-prefix", "x")
	s.seen()
	asked("when bd changed the settings")

	// Trust does not apply to the same settings in another folder.
	moved := filepath.Join(t.TempDir(), "clone")
	check(t, os.Rename(a.dir, moved))
	a.dir = moved
	ignored("in another folder")

	// The repository's project is not sent to a server that the user configured.
	a.env = map[string]string{"AGENT_MAIL_URL": s.URL}
	if got := a.do("ann", "update", "x-1", "--claim"); got.code != 0 || len(got.warnings) != 1 {
		t.Errorf("exit %d, %q", got.code, got.warnings)
	}
	for _, n := range s.notices[len(s.notices)-1:] {
		if n.Project != "" {
			t.Errorf("notice %v has the project of an untrusted repository", n)
		}
	}
	raw, err := os.ReadFile(filepath.Join(a.home, ".config", "bd", "trust.json"))
	if err != nil || strings.Contains(string(raw), s.URL) {
		t.Errorf("%v: %s", err, raw)
	}
}
