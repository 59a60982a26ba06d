package main

// step is a target of the Makefile.
type step struct {
	name  string
	args  []string // the command
	needs []string // steps that must pass before
	after []string // steps that must end before, whether they pass or not
	tests bool     // the step writes the output of go test -json
	list  string   // the packages that it tests, a pattern of go list; "" if their number is not worth a second

	// reads reports whether the step reads a file of the tree. The step is not run again while nothing that it reads
	// has changed since it passed. Without reads it always runs.
	reads func(file string) bool
}

// steps returns the steps of make test.
//
// The order keeps two processors busy to the end, and compiles no package twice with the same settings: two go
// commands that run at the same time would both compile a package that is not in the cache yet. So the tests, which
// compile everything for the race detector, wait for the build, which compiles everything without it. The tests in
// the browser need the programs of the build only, and spend half of their time waiting. The checks read what the
// tests compiled.
//
// Go itself does not repeat tests and builds of unchanged packages. The other steps that take long have a stamp.
func steps() []step {
	return []step{
		{name: "format", args: target("format")},
		{name: "npm", args: target("npm")},
		{name: "build", args: target("build", "fakes")},
		{name: "web", args: target("web", "MAILROOM_TEST_SHOTS=no"), needs: []string{"npm", "build"}, reads: withoutGo},
		{name: "js", args: target("js"), needs: []string{"npm", "build"}, reads: withoutGo},
		{name: "tests", args: target("racing", "JSON=-json"), after: []string{"build"}, tests: true, list: "./..."},
		{
			name: "modules", args: target("modules", "JSON=-json"), after: []string{"build", "js"}, tests: true,
			reads: everyFile,
		},
		{name: "lint", args: target("vet", "staticcheck"), after: []string{"tests"}, reads: everyFile},
	}
}

// target returns the command for targets of the Makefile. Make is silent about commands whose output is parsed.
func target(names ...string) []string {
	return append([]string{"make", "--no-print-directory", "--silent"}, names...)
}
