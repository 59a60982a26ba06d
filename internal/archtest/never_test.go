package archtest

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// checkNames finds package names without meaning.
func checkNames(f *file) []string {
	vague := []string{
		"util", "utils", "common", "helper", "helpers", "type", "types", "manager", "managers", "service", "services",
	}
	names := append(strings.Split(f.folder(), "/"), strings.TrimSuffix(f.ast.Name.Name, "_test"))
	for _, name := range names {
		if slices.Contains(vague, name) {
			return []string{f.finding(f.ast.Package, "%q names no thing: call the package by what it is about", name)}
		}
	}
	return nil
}

// checkSleep finds tests that sleep instead of waiting for an event.
func checkSleep(f *file) []string {
	if !f.test {
		return nil
	}
	clock := "" // the name by which the file knows package time
	for _, imp := range f.ast.Imports {
		if imp.Path.Value == `"time"` {
			clock = "time"
			if imp.Name != nil {
				clock = imp.Name.Name
			}
		}
	}
	if clock == "" {
		return nil
	}
	var found []string
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if e, ok := n.(*ast.SelectorExpr); ok && selector(e) == clock+".Sleep" {
			found = append(found, f.finding(e.Pos(), "a test sleeps: wait for the event itself"))
		}
		return true
	})
	return found
}

func TestVagueNamesAreFound(t *testing.T) {
	for _, e := range []example{
		{"a thing", "bus/x.go", "package bus", 0},
		{"its outer tests", "bus/x_test.go", "package bus_test", 0},
		{"by its folder", "internal/util/x.go", "package x", 1},
		{"by its name", "bus/x.go", "package helpers", 1},
		{"by the name of its tests", "bus/x_test.go", "package service_test", 1},
		{"a word that contains one", "bus/x.go", "package utility", 0},
	} {
		e.run(t, checkNames)
	}
}

func TestSleepsAreFound(t *testing.T) {
	sleep := "import \"time\"\nfunc f() { time.Sleep(1) }"
	for _, e := range []example{
		{"in a test", "bus/x_test.go", "package x\n" + sleep, 1},
		{"under another name", "bus/x_test.go", "package x\nimport clock \"time\"\nfunc f() { clock.Sleep(1) }", 1},
		{"handed on", "bus/x_test.go", "package x\nimport \"time\"\nvar f = time.Sleep", 1},
		{"in a suite", "store/storetest/x.go", "package x\nimport (\"testing\"; \"time\")\nfunc f(*testing.T) { time.Sleep(1) }", 1},
		{"in the product", "bus/x.go", "package x\n" + sleep, 0},
		{"of something else", "bus/x_test.go", "package x\nfunc f(time T) { time.Sleep(1) }", 0},
	} {
		e.run(t, checkSleep)
	}
}
