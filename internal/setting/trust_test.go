package setting_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"mailroom/internal/setting"
)

// TestATrustFileThatOthersCanWriteTrustsNothing opens the file or its folder to others, or puts another thing there.
func TestATrustFileThatOthersCanWriteTrustsNothing(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Log("Windows has other rights")
	}
	const body = `{"/srv/roof/.worktreesetup": {"digest": "abc", "at": "2026-11-29T10:00:00Z"}}`
	for _, test := range []struct {
		name, want string
		change     func(path string) error
	}{
		{"ours", "", func(string) error { return nil }},
		{"missing", "", os.Remove},
		{"no folder", "", func(path string) error { return os.RemoveAll(filepath.Dir(path)) }},
		{"world-writable", "other accounts can write", func(path string) error { return os.Chmod(path, 0o606) }},
		{"group-writable", "other accounts can write", func(path string) error { return os.Chmod(path, 0o660) }},
		{"folder", "other accounts can write", func(path string) error { return os.Chmod(filepath.Dir(path), 0o707) }},
		{"link", "is a link", func(path string) error {
			to := filepath.Join(filepath.Dir(filepath.Dir(path)), "other")
			if err := os.Rename(path, to); err != nil {
				return err
			}
			return os.Symlink(to, path)
		}},
		{"damaged", "cannot be read", func(path string) error { return os.WriteFile(path, []byte("{"), 0o600) }},
		{"null", "is no object", func(path string) error { return os.WriteFile(path, []byte("null"), 0o600) }},
	} {
		home := t.TempDir()
		path, err := setting.TrustFile(func(name string) string { return map[string]string{"HOME": home}[name] })
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := test.change(path); err != nil {
			t.Fatal(err)
		}
		got, err := setting.ReadTrust(path)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) ||
			len(got) > 0 || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v, %v; want %q", test.name, got, err, test.want)
		}
		if test.name == "ours" && got.Refusal("/srv/roof/.worktreesetup", "abc") != "" {
			t.Errorf("%v is not trusted", got)
		}
	}
	if _, err := setting.TrustFile(func(string) string { return "relative" }); err == nil {
		t.Error("a relative HOME is accepted")
	}
}

func TestAContentIsTrustedUnderItsNameOnly(t *testing.T) {
	trust := setting.Trust{"/srv/roof/.worktreesetup": {Digest: "abc", At: time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)}}
	for _, test := range []struct{ name, digest, want string }{
		{"/srv/roof/.worktreesetup", "abc", ""},
		{"/srv/roof/.worktreesetup", "abd", "has changed since it was trusted on 2026-11-29"},
		{"/srv/roof/.worktreesetup", "", "has changed since it was trusted on 2026-11-29"},
		{"/srv/Roof/.worktreesetup", "abc", "is not trusted"}, {"/srv/gutter/.worktreesetup", "abc", "is not trusted"},
		{"", "", "is not trusted"},
	} {
		if got := trust.Refusal(test.name, test.digest); got != test.want {
			t.Errorf("%q, %q: %q, want %q", test.name, test.digest, got, test.want)
		}
	}
}
