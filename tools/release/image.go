package main

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const (
	nonroot = 65532 // user and group of the image, the number that other images without a system use
	dataDir = "/data"
)

// writeImage writes an image for the processors of programs as an archive with an OCI layout. The image has the
// program, its licences, two users, certificates and the folder of the data, and no system.
func (r *release) writeImage(programs []program) error {
	if len(programs) == 0 {
		return nil
	}
	dir := filepath.Join(r.work, "image")
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, b := range programs {
		image, err := r.imageOf(b)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: b.os, Architecture: b.arch}},
		})
	}
	at, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	// The name is how engines call the image that they load.
	err = at.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": r.version, "io.containerd.image.name": "mailroom:" + r.version,
	}))
	if err != nil {
		return err
	}
	var entries []entry
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		entries = append(entries, entry{name: filepath.ToSlash(rel), file: name})
		return err
	})
	if err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	fmt.Fprintf(r.log, "image %s\n", digest)
	return r.create("mailroom_"+r.version+"_oci.tar", func(w io.Writer) error { return writeTar(w, r.time, entries) })
}

// imageOf returns the image of a platform.
func (r *release) imageOf(b program) (v1.Image, error) {
	var root bytes.Buffer
	if err := writeTar(&root, r.time, r.rootOf(b)); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(root.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	image = mutate.ConfigMediaType(image, types.OCIConfigJSON)
	image, err = mutate.Append(image, mutate.Addendum{
		Layer: layer, History: v1.History{Created: v1.Time{Time: r.time}, CreatedBy: "make release"},
	})
	if err != nil {
		return nil, err
	}
	labels := map[string]string{
		"org.opencontainers.image.title": "Mailroom", "org.opencontainers.image.version": r.version,
		"org.opencontainers.image.revision": r.commit, "org.opencontainers.image.licenses": "Apache-2.0",
	}
	if r.base != "" {
		labels["org.opencontainers.image.url"] = r.base
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Created = b.os, b.arch, v1.Time{Time: r.time}
	file.Config = v1.Config{
		User: fmt.Sprintf("%d:%[1]d", nonroot), WorkingDir: dataDir, Labels: labels,
		// The address is a variable, because manifests replace the command.
		Env: []string{"PATH=/usr/bin", "HOME=" + dataDir, "MAILROOM_DATA=" + dataDir,
			"MAILROOM_LISTEN=0.0.0.0:8420"},
		Entrypoint: []string{"/usr/bin/mailroom"}, Cmd: []string{"serve"},
		ExposedPorts: map[string]struct{}{"8420/tcp": {}}, Volumes: map[string]struct{}{dataDir: {}},
		StopSignal: "SIGTERM",
	}
	return mutate.ConfigFile(image, file)
}

// rootOf returns the files of the image.
func (r *release) rootOf(b program) []entry {
	users := fmt.Sprintf("root:x:0:0:root:/:/sbin/nologin\nnonroot:x:%d:%[1]d:nonroot:%s:/sbin/nologin\n",
		nonroot, dataDir)
	return []entry{
		{name: "usr/bin/mailroom", file: b.mailroom, run: true},
		{name: "usr/bin/bd", file: b.bd, run: true},
		{name: "etc/passwd", data: []byte(users)},
		{name: "etc/group", data: fmt.Appendf(nil, "root:x:0:\nnonroot:x:%d:\n", nonroot)},
		{name: "etc/ssl/certs/ca-certificates.crt", data: certificates()},
		{name: "usr/share/doc/mailroom/NOTICES", data: r.notices},
		{name: "tmp/", mode: 0o1777},
		{name: dataDir[1:] + "/", owner: nonroot, mode: 0o700},
	}
}

// certificates returns the certificates of authorities that Mozilla's program trusts without a condition, which a file
// cannot express. They come from a module with a fixed version, because the file of the machine that builds
// differs from machine to machine.
func certificates() []byte {
	var text bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer takes everything
		}
	}
	return text.Bytes()
}
