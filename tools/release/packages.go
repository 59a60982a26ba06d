package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

const description = `durable mailbox for agents
A server that keeps messages, runs, approvals and replies of agents on disk, with
pages, an HTTP API and clients. The command bd tracks issues in a file.`

// writePackages writes the packages of a Linux platform. Both have the same files, but for the places where the systems
// keep completions of zsh and licences.
func (r *release) writePackages(b program) error {
	dir := filepath.Join(r.work, "package-"+b.arch)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, p := range []struct {
		nfpm.Packager
		kind, zsh string
	}{
		{deb.Default, "deb", "usr/share/zsh/vendor-completions"},
		{rpm.DefaultRPM, "rpm", "usr/share/zsh/site-functions"},
	} {
		contents, err := r.contents(b, dir, p.kind, p.zsh)
		if err != nil {
			return err
		}
		info := nfpm.WithDefaults(&nfpm.Info{
			Name: "mailroom", Arch: b.arch, Platform: "linux", Version: r.version, Section: "net", Priority: "optional",
			Maintainer: r.maintainer, Description: description, Homepage: r.base, License: "Apache-2.0", MTime: r.time,
			DisableGlobbing: true,
			Overridables:    r.overrides(contents),
		})
		// Without this the files have the permissions of this folder, which the umask of the user decides.
		if err := nfpm.PrepareForPackager(info, p.kind); err != nil {
			return err
		}
		err = r.create(p.ConventionalFileName(info), func(w io.Writer) error { return p.Package(info, w) })
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *release) overrides(contents files.Contents) nfpm.Overridables {
	scripts := filepath.Join(r.root, "deploy", "package")
	o := nfpm.Overridables{
		Contents: contents, Umask: 0o002,
		Scripts: nfpm.Scripts{
			PostInstall: filepath.Join(scripts, "postinst"), PreRemove: filepath.Join(scripts, "prerm"),
			PostRemove: filepath.Join(scripts, "postrm"),
		},
		Recommends: []string{"ca-certificates"},
	}
	o.Deb.Compression = "gzip" // xz in Go takes ten times as long, for a tenth of the size
	o.RPM.Compression = "gzip"
	o.RPM.BuildHost = "mailroom.invalid" // the name of this machine would be in the package
	o.RPM.Group = "System Environment/Daemons"
	o.RPM.Summary = "Durable mailbox for agents"
	return o
}

// contents returns the files of a package, with the ones that are made here in the folder dir.
func (r *release) contents(b program, dir, kind, zsh string) (files.Contents, error) {
	var all files.Contents
	add := func(at, from string, mode os.FileMode) {
		all = append(all, &files.Content{
			Source: from, Destination: "/" + at, Packager: kind,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: r.time},
		})
	}
	add("usr/bin/mailroom", b.mailroom, 0o755)
	add("usr/bin/bd", b.bd, 0o755)
	// The unit names this file, so it exists. What its owner wrote there stays at an upgrade.
	add("etc/mailroom/mailroom.toml", filepath.Join(r.root, "deploy", "package", "mailroom.toml"), 0o644)
	all[len(all)-1].Type = files.TypeConfigNoReplace
	places := map[string]string{
		"systemd": "usr/lib/systemd/system", "systemd/user": "usr/lib/systemd/user",
		"completions/bash": "usr/share/bash-completion/completions",
		"completions/zsh":  zsh, "completions/fish": "usr/share/fish/vendor_completions.d",
	}
	for _, e := range r.extras {
		at, data := "", e.data
		switch folder := path.Dir(e.name); {
		case places[folder] != "":
			at = places[folder] + "/" + path.Base(e.name)
		case e.name == "LICENSE" && kind == "deb":
			at, data = "usr/share/doc/mailroom/copyright", r.copyright(data)
		case e.name == "CHANGELOG.md", e.name == "NOTICES":
			var small bytes.Buffer
			if err := compress(&small, func(w io.Writer) error { _, err := w.Write(data); return err }); err != nil {
				return nil, err
			}
			at, data = "usr/share/doc/mailroom/"+strings.TrimSuffix(e.name, ".md")+".gz", small.Bytes()
			if e.name == "CHANGELOG.md" {
				at = "usr/share/doc/mailroom/changelog.gz"
			}
		case folder == ".":
			at = "usr/share/doc/mailroom/" + e.name
		default:
			return nil, fmt.Errorf("no place for %s", e.name)
		}
		file := filepath.Join(dir, kind+"-"+strings.ReplaceAll(e.name, "/", "-"))
		if err := os.WriteFile(file, data, 0o644); err != nil {
			return nil, err
		}
		add(at, file, 0o644)
	}
	return all, nil
}

// copyright returns the file that Debian wants for a package.
func (r *release) copyright(license []byte) []byte {
	_ = license // Debian has the text of this licence in each system
	return []byte(`Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: Mailroom

Files: *
Copyright: the Mailroom authors
License: Apache-2.0
 On Debian systems the text is in /usr/share/common-licenses/Apache-2.0.
 The licences of the modules and scripts that the programs contain are in
 /usr/share/doc/mailroom/NOTICES.gz.
`)
}
