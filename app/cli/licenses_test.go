package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mailroom/internal/price"
)

// identify returns the licences in a text, as an expression of SPDX, by the sentences that only they have.
func identify(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	var found []string
	has := func(id, pattern string) {
		if regexp.MustCompile(pattern).MatchString(text) {
			found = append(found, id)
		}
	}
	has("Apache-2.0", `Apache License Version 2\.0, January 2004`)
	has("MIT", `free of charge, to any person obtaining a copy.*The above copyright notice and this permission notice`)
	if !slices.Contains(found, "MIT") {
		has("MIT-0", `free of charge, to any person obtaining a copy`)
	}
	has("BSD-3-Clause", `Redistribution and use in source and binary forms.*(endorse|names? of)`)
	if !slices.Contains(found, "BSD-3-Clause") {
		has("BSD-2-Clause", `Redistribution and use in source and binary forms`)
	}
	has("ISC", `Permission to use, copy, modify, and(/or)? distribute this software for any purpose with or without fee`)
	return strings.Join(found, " AND ")
}

// Every module that a program contains on some platform, every script in the pages and the table of prices has a line,
// and no other thing has; each licence is the one that its own file says.
func TestTheTableOfLicencesIsWhatTheFilesSay(t *testing.T) {
	want := map[string]string{}
	for _, system := range []string{"linux", "darwin", "windows"} {
		list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f",
			`{{with .Module}}{{if not .Main}}{{.Path}} {{.Dir}}{{end}}{{end}}`, "../../cmd/mailroom", "../../cmd/bd")
		list.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system)
		out, err := list.Output()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(out)) {
			path, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
			if want[path] == "" {
				want[path] = identify(readLicense(t, dir))
			}
		}
	}
	scripts, err := os.ReadFile("../../web/vendor/LICENSES.txt")
	if err != nil {
		t.Fatal(err)
	}
	for section := range strings.SplitSeq(string(scripts), "\n"+strings.Repeat("-", 80)+"\n\n") {
		name, text, _ := strings.Cut(section, "\n\n")
		want[name] = identify(text)
	}
	prices, err := os.ReadFile("../../internal/price/LICENSE.txt")
	if err != nil {
		t.Fatal(err)
	}
	want[price.Source] = identify(string(prices))
	got := map[string]string{}
	for line := range strings.Lines(licenseTable) {
		columns := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		got[strings.TrimSpace(columns[0]+" "+columns[1])] = columns[2]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("licences.tsv (-files +table):\n%s", diff)
	}
	if len(want) < 40 {
		t.Errorf("found only %d modules and scripts", len(want))
	}
}

func readLicense(t *testing.T, dir string) string {
	t.Helper()
	for _, name := range []string{"LICENSE", "LICENSE.txt", "LICENSE.md"} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
			return string(text)
		}
	}
	t.Errorf("no licence in %s", dir)
	return ""
}

func TestAModuleWithoutALicenceIsAnError(t *testing.T) {
	list, err := components([]*debug.Module{{Path: "rsc.io/qr", Version: "v0.2.0"}})
	if want := (component{"rsc.io/qr", "v0.2.0", "BSD-3-Clause"}); err != nil || !slices.Contains(list, want) {
		t.Errorf("got %v, %v, want it to have %v", list, err, want)
	}
	if slices.ContainsFunc(list, func(c component) bool { return c.Name == "github.com/google/uuid" }) {
		t.Error("a module that the program does not contain is listed")
	}
	if _, err := components([]*debug.Module{{Path: "example.org/new", Version: "v1.0.0"}}); err == nil {
		t.Error("a module without a line is no error")
	}
}
