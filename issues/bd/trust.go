package bd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/issues/tracker"
)

// A repository's settings can name a server that learns about the work and receives the user's
// token. They take effect only after the user has trusted them. Trust is stored outside the
// repository, for one folder and one content of the settings.

const (
	trustFile = "trust.json"
	trustLock = "trust.lock"
	maxTrust  = 4 << 20 // bytes
)

// trustList maps folders to the digests of trusted settings.
type trustList map[string]string

// trustDir returns the user's folder for the trust file.
func (m *Main) trustDir() (string, error) {
	dir := m.Env("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) { // the XDG specification ignores paths that are not absolute
		if dir = m.Env("HOME"); !filepath.IsAbs(dir) {
			return "", mailroom.Errorf(mailroom.CodeInvalid, "no folder for user settings; set HOME or XDG_CONFIG_HOME")
		}
		dir = filepath.Join(dir, ".config")
	}
	dir = filepath.Join(dir, "bd")
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real // the user's own link
	}
	return dir, nil
}

func readTrusted(dir *tracker.Dir) (trustList, error) {
	list := trustList{}
	raw, err := dir.Read(trustFile, maxTrust)
	if errors.Is(err, fs.ErrNotExist) {
		return list, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &list)
	}
	if err != nil {
		return trustList{}, fmt.Errorf("read %s: %w", dir.Path(trustFile), err)
	}
	return list, nil
}

// trusts reports whether the user trusts these settings of a tracker.
func (m *Main) trusts(tr tracker.Folder, set settings) bool {
	return m.trusted(realPath(tr.Path()), set.digest)
}

// trusted reports whether the user trusts the content with this digest for the file or tracker with this name.
func (m *Main) trusted(name, digest string) bool {
	path, err := m.trustDir()
	if err != nil {
		return false
	}
	dir, err := tracker.OpenDir(path)
	if err != nil {
		return false // the user has trusted no file yet
	}
	defer dir.Close() // read only: nothing can be lost
	list, err := readTrusted(dir)
	return err == nil && digest != "" && list[name] == digest
}

// realPath returns a path with symbolic links resolved, so that each folder has only one name.
func realPath(of string) string {
	path, err := filepath.Abs(of)
	if err != nil {
		path = of
	}
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved
	}
	return path
}

// trust stores the digest of the content that the user trusts under name; an empty digest revokes the trust.
func (m *Main) trust(ctx context.Context, name, digest string) error {
	path, err := m.trustDir()
	if err != nil {
		return err
	}
	return replaceTrust(ctx, m, path, trustFile, func() (any, error) {
		dir, err := tracker.OpenDir(path)
		if err != nil {
			return nil, err
		}
		defer dir.Close() // read only: nothing can be lost
		list, err := readTrusted(dir)
		if list[name] = digest; digest == "" {
			delete(list, name)
		}
		return list, err
	})
}

// replaceTrust replaces a file in a folder of the user, which it makes, by what content returns as JSON. Until then no
// other command changes the file.
func replaceTrust(ctx context.Context, m *Main, folder, file string, content func() (any, error)) (err error) {
	dir, err := tracker.MakeDir(folder)
	if err != nil {
		return fmt.Errorf("store trust: %w", err)
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	lock, err := dir.Lock(ctx, trustLock, file, tracker.WaitOptions{Command: m.command, Max: m.lockWait})
	if err != nil {
		return fmt.Errorf("store trust: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	list, err := content()
	if err != nil {
		return err
	}
	return lock.Replace(file, 0o600, func(to io.Writer) error {
		e := json.NewEncoder(to)
		e.SetIndent("", "  ")
		return e.Encode(list)
	}, nil)
}

// trustedMail returns the mail settings of a tracker. It returns none and warns if the user does
// not trust them.
func (m *Main) trustedMail(dir tracker.Folder) mailSettings {
	set := m.settings(dir)
	if set.Mail == nil || *set.Mail == (mailSettings{}) {
		return mailSettings{}
	}
	if !m.trusts(dir, set) {
		m.out.logf(
			"Warning: %s names an agent mail server but is not trusted; its mail settings are ignored (show them with: bd trust --show; trust them with: bd trust)", settingsFile)
		return mailSettings{}
	}
	return *set.Mail
}

func trustCommand(m *Main) *cobra.Command {
	f := &trusting{m: m}
	cmd := &cobra.Command{
		Use: "trust [PATH]", Short: "Trust the settings or the set-up commands of this repository",
		Long: `Trust the mail settings, the redirect or the set-up commands of this repository.

.worktreesetup has commands that a server runs in each new worktree of an agent. Nothing of it
runs until you, as the account of the server, trust it: this command shows its content in a
commit and asks. Any other content is not trusted. --yes with the digest answers without a
terminal. --remove ends the trust, also of a repository that is gone, by its PATH.

.beads/config.toml can name a server that commands notify of their work. It receives
AGENT_MAIL_TOKEN if it is on this machine. The author of the repository chose that server,
so the settings are ignored until you trust them. Trust applies to this folder and this
content of the file: after a change, trust it again. Trust is stored in $XDG_CONFIG_HOME/bd.

.beads/redirect can name the tracker of another project. If git carries that file, its author
chose where your issues are written, so it is refused until you trust it. Trust the redirect
first; a second call trusts the mail settings of the tracker that it leads to.`,
		Example: "  bd trust --show\n  bd trust\n  bd trust --check --commit origin/main",
		Args: func(cmd *cobra.Command, args []string) error {
			if f.remove && len(args) == 1 {
				return nil
			}
			return noArgs(cmd, args)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.show, "show", false, "show the settings and whether they are trusted")
	flags.BoolVar(&f.revoke, "revoke", false, "revoke trust")
	flags.BoolVar(&f.list, "list", false, "list the set-up commands that are trusted")
	flags.BoolVar(&f.check, "check", false, "show the set-up commands; exit 1 unless they are trusted")
	flags.BoolVar(&f.remove, "remove", false, "no longer trust the set-up commands of this repository, or of PATH")
	flags.StringVar(&f.yes, "yes", "", "trust set-up commands with this digest, without a question")
	flags.StringVar(&f.commit, "commit", "", "commit that has the set-up commands (default HEAD)")
	cmd.MarkFlagsMutuallyExclusive("show", "revoke", "list", "check", "remove", "yes")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if f.isAboutSetup() {
			return f.trustSetup(cmd.Context(), args)
		}
		return f.trustAll(cmd.Context())
	}
	return cmd
}

// trustAll trusts the redirect or the settings of the tracker, then the set-up commands of the repository. With the
// flags show or revoke it does that instead.
func (f *trusting) trustAll(ctx context.Context) error {
	r, err := f.readSetup(ctx)
	if err != nil {
		return err
	}
	err = f.trustTracker(ctx)
	none := mailroom.CodeOf(err) == mailroom.CodeNotFound // no tracker
	switch {
	case r == nil || r.Setup == nil && !none || err != nil && !none || f.m.out.json && err == nil:
		return err
	case r.Setup == nil && exists(r.name):
		return f.reportNoSetup(r)
	case r.Setup == nil:
		return err
	}
	switch {
	case f.show:
		trust, err := f.readTrust()
		if err != nil {
			return err
		}
		return f.printSetup(r, trust)
	case f.revoke:
		trust, err := f.readTrust()
		if _, is := trust[r.name]; !is || err != nil {
			return err
		}
		return f.removeTrust(ctx, r.name)
	}
	return f.trustSetup(ctx, nil)
}

// trustTracker trusts the redirect or the mail settings of the tracker. With the flags show or revoke it does that
// instead.
func (f *trusting) trustTracker(ctx context.Context) error {
	m := f.m
	dir, err := m.folder()
	if to, ok := errors.AsType[untrustedRedirect](err); ok {
		return m.trustRedirect(ctx, to, f.show || f.revoke)
	}
	if err != nil {
		return err
	}
	set, err := readSettings(dir)
	if err != nil && !f.revoke {
		return err // invalid settings cannot be trusted
	}
	if !f.show {
		if m.readonly {
			return errReadonly()
		}
		digest := set.digest
		if f.revoke {
			digest = ""
		}
		if err := m.trust(ctx, realPath(dir.Path()), digest); err != nil {
			return err
		}
		if f.revoke && m.found.redirect != nil {
			if err := m.trust(ctx, realPath(m.found.redirect.file), ""); err != nil {
				return err
			}
		}
	}
	return m.printTrust(dir, set)
}

// trustRedirect stores that the user trusts a redirect. If show is set, it only prints the folder that the redirect
// names.
func (m *Main) trustRedirect(ctx context.Context, to untrustedRedirect, show bool) error {
	if !show {
		if m.readonly {
			return errReadonly()
		}
		if err := m.trust(ctx, realPath(to.file), to.digest); err != nil {
			return err
		}
	}
	if m.out.json {
		return m.out.printJSON(map[string]any{"redirect": to.file, "folder": to.target, "trusted": !show})
	}
	state := "trusted"
	if show {
		state = "not trusted: commands refuse it"
	}
	return m.out.printRows([][]safeText{cells("redirect", to.file), cells("folder", to.target), cells("state", state)})
}

func (m *Main) printTrust(dir tracker.Folder, set settings) error {
	named, is := mailSettings{}, m.trusts(dir, set)
	if set.Mail != nil {
		named = *set.Mail
	}
	if m.out.json {
		return m.out.printJSON(map[string]any{"folder": realPath(dir.Path()), "trusted": is, "url": named.URL,
			"project": named.Project})
	}
	state := "not trusted: its mail settings are ignored"
	if is {
		state = "trusted"
	}
	if named == (mailSettings{}) {
		state = strings.TrimSuffix(state, ": its mail settings are ignored") + "; no server is configured"
	}
	return m.out.printRows([][]safeText{cells("folder", realPath(dir.Path())), cells("server", named.URL),
		cells("project", named.Project), cells("state", state)})
}
