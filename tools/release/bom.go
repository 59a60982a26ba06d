package main

import (
	"fmt"
	"io"
	"slices"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/CycloneDX/cyclonedx-gomod/pkg/generate/bin"
	"github.com/rs/zerolog"
)

// writeBOM writes the bill of materials of a platform: what go version -m says of the program, the scripts in its
// pages, and the licence of each. It has no serial number, which would differ with each build.
func (r *release) writeBOM(b program) error {
	bom, err := r.bomOf(b)
	if err != nil {
		return err
	}
	return r.create("mailroom_"+r.version+"_"+b.os+"_"+b.arch+".cdx.json", func(w io.Writer) error {
		return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
	})
}

func (r *release) bomOf(b program) (*cdx.BOM, error) {
	g, err := bin.NewGenerator(b.mailroom, bin.WithIncludeStdlib(true), bin.WithVersionOverride("v"+r.version),
		bin.WithLogger(zerolog.Nop()))
	if err != nil {
		return nil, err
	}
	bom, err := g.Generate()
	if err != nil {
		return nil, err
	}
	bom.Metadata.Timestamp = r.time.Format(time.RFC3339)
	bom.Metadata.Component.Licenses = licenseOf("Apache-2.0")
	components := *bom.Components
	for i, c := range components {
		id, ok := r.licenses.byPath[c.Name]
		if c.Name == "std" {
			id, ok = "BSD-3-Clause", true
		}
		if !ok {
			return nil, fmt.Errorf("%s names no licence for module %s", table, c.Name)
		}
		components[i].Licenses = licenseOf(id)
	}
	for _, s := range r.licenses.scripts {
		components = append(components, cdx.Component{
			Type: cdx.ComponentTypeLibrary, Name: s.name, Version: s.version, Scope: cdx.ScopeRequired,
			BOMRef: s.packageURL(), PackageURL: s.packageURL(),
			Licenses: licenseOf(r.licenses.byPath[s.name]),
		})
	}
	bom.Components = &components
	return bom, nil
}

// licenseOf names a licence by an expression of SPDX.
func licenseOf(expression string) *cdx.Licenses {
	if slices.Contains([]string{"MIT", "Apache-2.0", "BSD-3-Clause", "BSD-2-Clause", "ISC", "MIT-0"}, expression) {
		return &cdx.Licenses{{License: &cdx.License{ID: expression}}}
	}
	return &cdx.Licenses{{Expression: expression}}
}
