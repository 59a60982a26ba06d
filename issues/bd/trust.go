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
func (m *Main) trust(ctx context.Context, name, digest string) (err error) {
	path, err := m.trustDir()
	if err != nil {
		return err
	}
	dir, err := tracker.MakeDir(path)
	if err != nil {
		return fmt.Errorf("store trust: %w", err)
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	lock, err := dir.Lock(ctx, trustLock, trustFile, tracker.WaitOptions{Command: m.command, Max: m.lockWait})
	if err != nil {
		return fmt.Errorf("store trust: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	list, err := readTrusted(dir)
	if err != nil {
		return err
	}
	if list[name] = digest; digest == "" {
		delete(list, name)
	}
	return lock.Replace(trustFile, 0o600, func(to io.Writer) error {
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
	var show, revoke bool
	cmd := &cobra.Command{
		Use: "trust", Short: "Trust the mail settings or the redirect of this repository", Args: noArgs,
		Long: `Trust the mail settings or the redirect of this repository.

.beads/config.toml can name a server that commands notify of their work. It receives
AGENT_MAIL_TOKEN if it is on this machine. The author of the repository chose that server,
so the settings are ignored until you trust them. Trust applies to this folder and this
content of the file: after a change, trust it again. Trust is stored in $XDG_CONFIG_HOME/bd.

.beads/redirect can name the tracker of another project. If git carries that file, its author
chose where your issues are written, so it is refused until you trust it. Trust the redirect
first; a second call trusts the mail settings of the tracker that it leads to.`,
		Example: "  bd trust --show\n  bd trust",
	}
	cmd.Flags().BoolVar(&show, "show", false, "show the settings and whether they are trusted")
	cmd.Flags().BoolVar(&revoke, "revoke", false, "revoke trust")
	cmd.MarkFlagsMutuallyExclusive("show", "revoke")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		dir, err := m.folder()
		if to, ok := errors.AsType[untrustedRedirect](err); ok {
			return m.trustRedirect(cmd.Context(), to, show || revoke)
		}
		if err != nil {
			return err
		}
		set, err := readSettings(dir)
		if err != nil && !revoke {
			return err // invalid settings cannot be trusted
		}
		if !show {
			if m.readonly {
				return errReadonly()
			}
			digest := set.digest
			if revoke {
				digest = ""
			}
			if err := m.trust(cmd.Context(), realPath(dir.Path()), digest); err != nil {
				return err
			}
			if revoke && m.found.redirect != nil {
				if err := m.trust(cmd.Context(), realPath(m.found.redirect.file), ""); err != nil {
					return err
				}
			}
		}
		return m.printTrust(dir, set)
	}
	return cmd
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
