package archtest

import (
	"go/ast"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// floors are the folders of the tree from the ground up, in groups as in CONTRIBUTING's tree; the index of a row is its
// floor. A folder inside one of these shares its floor. A package imports only packages of lower floors, and its own
// subpackages: two groups of one row do not import each other.
//
// archtest: a table, never written.
var floors = [][]string{
	{"internal/{recovery,jsontext,lazyregexp}", "docs"}, // the standard library only
	{"."},        // nouns; the standard library only
	{"internal"}, // leaves: each uses the rows above and no other leaf, so that every package below may import it
	{"entry", "auth"},
	{"store"}, // the seam and its rows
	{"store/internal", "thread"},
	{"project"},
	{"bus"},
	{
		"ledger", "store/{memory,postgres,sqlite,transfer}", "doctor", "api", "issues/tracker", "alert/webpush",
		"app/{command,datadir}",
	},
	{
		"engine", "stream", "agent", "schedule", "channel", "client", "clients", "server/internal", "issues/{mail,workflow}",
	},
	{
		"alert", "channel/chat", "issues/{bd,feed}", "server/{workers,ws}", "worker", "protocol", "web", "app/endpoint",
		"internal/killpoint", // for torture: kills the process at a chosen point
	},
	{"channel/{kind,httpcall}", "server/operate", "app/cli"},
	{"server", "alert/target", "channel/chat/room", "issues/board"},
	{"channel/chat/{inbound,outbound}"},
	{"channel/chat/adapter"},
	{"channel/{discord,irc,matrix,poll,slack,telegram,webhook}", "alert/mail", "issues/board/{github,linear}"},
	{"app/config"},
	{"app/{manual,storage}"},
	{"app/node"},
	{"cmd", "bench", "examples", "tools", "torture"},
}

const (
	// ground is the floor of packages that use the standard library only.
	ground = 0

	// leaf is the floor of the folders in internal that no other row names.
	leaf = 2
)

// floorOf maps each folder that floors names to its floor.
var floorOf = sync.OnceValue(func() map[string]int {
	all := map[string]int{}
	for n, row := range floors {
		for _, group := range row {
			before, braces, _ := strings.Cut(group, "{")
			for name := range strings.SplitSeq(strings.TrimSuffix(braces, "}"), ",") {
				all[before+name] = n
			}
		}
	}
	return all
})

// groups returns how many groups of folders the floors name.
func groups() (n int) {
	for _, row := range floors {
		n += len(row)
	}
	return n
}

// forTests reports whether a folder serves tests: it may use everything, and the product nothing of it.
func forTests(folder string) bool {
	for at := folder; at != "."; at = path.Dir(at) {
		if strings.HasSuffix(at, "test") {
			return true
		}
	}
	return false
}

// users of issues are these folders and tests only.
var users = []string{"issues", "cmd", "bench", "app/node"}

// concrete stores are named by these folders and tests only.
var (
	concrete = []string{"store/memory", "store/sqlite", "store/postgres"}
	wiring   = []string{"cmd", "app/node", "app/storage", "bench"}
)

// closed are folders that only these folders may import.
//
// archtest: a table, never written.
var closed = map[string][]string{
	"app/node":    {"cmd", "bench"},
	"doctor/fold": {"doctor", "torture"},
}

// apart are folders that these folders must not import, though they are below them.
//
// archtest: a table, never written.
var apart = map[string][]string{
	"app/cli": {"ledger", "store", "engine", "server", "channel"}, // it knows a server only by its API
}

func floor(folder string) (int, bool) {
	if forTests(folder) {
		return len(floors), true
	}
	for base := folder; ; base = path.Dir(base) {
		if n, ok := floorOf()[base]; ok && (base != "." || folder == ".") {
			return n, true
		}
		if base == "." {
			return 0, false
		}
	}
}

func within(folder, base string) bool {
	return folder == base || strings.HasPrefix(folder, base+"/")
}

func checkImports(f *file) []string {
	from := f.folder()
	if f.test { // tests may import any package, but the random model must stay independent of the fold
		if i := slices.IndexFunc(f.ast.Imports, func(i *ast.ImportSpec) bool {
			return i.Path.Value == strconv.Quote(module+"/doctor/fold")
		}); i >= 0 && !within(from, "doctor") && !within(from, "torture") {
			return []string{f.finding(f.ast.Imports[i].Pos(),
				"tests of %s import the fold, which judges logs independently of them", from)}
		}
		return nil
	}
	at, ok := floor(from)
	if !ok {
		return []string{f.finding(f.ast.Package, "folder %s has no floor: give it one in floors", from)}
	}
	var found []string
	for _, imp := range f.ast.Imports {
		target, err := strconv.Unquote(imp.Path.Value)
		if err != nil {
			found = append(found, f.finding(imp.Pos(), "%v", err))
			continue
		}
		own := target == module || strings.HasPrefix(target, module+"/")
		if !own {
			first, _, _ := strings.Cut(target, "/")
			if from == "." && strings.Contains(first, ".") {
				found = append(found, f.finding(imp.Pos(), "the root imports %s, but may only use the standard library", target))
			}
			continue
		}
		to := strings.TrimPrefix(strings.TrimPrefix(target, module), "/")
		if to == "" {
			to = "."
		}
		if why := forbidden(from, at, to); why != "" {
			found = append(found, f.finding(imp.Pos(), "%s imports %s: %s", from, target, why))
		}
	}
	return found
}

// forbidden returns why the code in folder from, on floor at, may not import
// folder to, or "" if it may.
func forbidden(from string, at int, to string) string {
	below, ok := floor(to)
	contains := func(folder string) func(string) bool {
		return func(base string) bool { return within(folder, base) }
	}
	for _, store := range concrete {
		if within(to, store) && !within(from, store) && !slices.ContainsFunc(wiring, contains(from)) {
			return "only the wiring of a server, commands and tests name a concrete store"
		}
	}
	for base, importers := range closed {
		if within(to, base) && !within(from, base) && !slices.ContainsFunc(importers, contains(from)) {
			return "only " + strings.Join(importers, " and ") + " may import it"
		}
	}
	if slices.ContainsFunc(apart[from], contains(to)) {
		return "it must work without it"
	}
	switch {
	case !ok:
		return "that folder has no floor"
	case forTests(from):
		return ""
	case forTests(to) && isSupport(from):
		return ""
	case forTests(to) && !within(to, from):
		return "only tests use it"
	case within(to, "issues") && !slices.ContainsFunc(users, func(folder string) bool { return within(from, folder) }):
		return "only the commands, bench and tests use issues"
	case at == ground, from == ".":
		return "it may use the standard library only"
	case at == leaf && below >= leaf:
		return "packages of internal that have no row of their own may use only the root and the ground"
	case at > leaf && within(to, from):
		return "" // its own subpackages
	case below >= at:
		return "imports must point down: from floor " + strconv.Itoa(at) + " not to " + strconv.Itoa(below)
	}
	return ""
}

func TestForbiddenImportsAreFound(t *testing.T) {
	imports := func(target string) string { // ~ is this module
		return "package x\nimport _ \"" + strings.Replace(target, "~", module, 1) + "\"\n"
	}
	for _, e := range []example{
		{"root, standard library", "x.go", imports("net/http"), 0},
		{"root, a library", "x.go", imports("github.com/google/uuid"), 1},
		{"root, anything of ours", "x.go", imports("~/bus"), 1},
		{"root, the ground", "x.go", imports("~/internal/recovery"), 1},
		{"root, in a test", "x_test.go", imports("~/store/memory"), 0},
		{"down", "engine/x.go", imports("~/ledger"), 0},
		{"down to the root", "stream/x.go", imports("~"), 0},
		{"sideways", "bus/x.go", imports("~/ledger"), 1},
		{"sideways within a family", "agent/exec/x.go", imports("~/agent/builtin"), 1},
		{"up", "bus/x.go", imports("~/engine"), 1},
		{"own inner package", "store/sqlite/x.go", imports("~/store/sqlite/schema"), 0},
		{"concrete store", "server/x.go", imports("~/store/sqlite"), 1},
		{"concrete store, test", "server/x_test.go", imports("~/store/sqlite"), 0},
		{"concrete store, command", "cmd/mailroom/x.go", imports("~/store/sqlite"), 0},
		{"internal", "agent/exec/x.go", imports("~/internal/proc"), 0},
		{"internal uses the root", "internal/display/x.go", imports("~"), 0},
		{"internal uses more", "internal/display/x.go", imports("~/bus"), 1},
		{"internal uses internal", "internal/display/x.go", imports("~/internal/check"), 1},
		{"internal uses its own inner package", "internal/display/x.go", imports("~/internal/display/inner"), 1},
		{"the first floor above internal", "entry/x.go", imports("~/internal/check"), 0},
		{"internal uses the ground", "internal/display/x.go", imports("~/internal/recovery"), 0},
		{"a server's parts in a command", "app/cli/x.go", imports("~/ledger"), 1},
		{"a concrete channel in a command", "app/cli/x.go", imports("~/channel/irc"), 1},
		{"the client in a command", "app/cli/x.go", imports("~/client"), 0},
		{"the wiring of a server", "cmd/mailroom/x.go", imports("~/app/node"), 0},
		{"the fold, in a random model", "ledger/x_test.go", imports("~/doctor/fold"), 1},
		{"the fold, in its own judge", "torture/x_test.go", imports("~/doctor/fold"), 0},
		{"the wiring of a server, elsewhere", "torture/x.go", imports("~/app/node"), 1},
		{"the roof", "app/config/x.go", imports("~/channel/kind"), 0},
		{"the roof, from below", "server/x.go", imports("~/app/config"), 1},
		{"internal uses the roof", "internal/display/x.go", imports("~/app/config"), 1},
		{"the ground uses the root", "internal/recovery/x.go", imports("~"), 1},
		{"the ground uses internal", "internal/recovery/x.go", imports("~/internal/check"), 1},
		{"the ground uses the ground", "internal/recovery/x.go", imports("~/internal/jsontext"), 1},
		{"issues, configuration", "app/config/x.go", imports("~/issues/feed"), 1},
		{"issues", "server/x.go", imports("~/issues/tracker"), 1},
		{"issues, command", "cmd/mailroom/x.go", imports("~/issues/bd"), 0},
		{"within issues", "issues/bd/x.go", imports("~/issues/mail"), 0},
		{"two platforms", "channel/irc/x.go", imports("~/channel/slack"), 1},
		{"two commands", "cmd/bd/x.go", imports("~/cmd/mailroom"), 1},
		{"what chats share, from a room", "channel/chat/room/x.go", imports("~/channel/chat/inbound"), 1},
		{"a suite, in the product", "server/x.go", imports("~/store/storetest"), 1},
		{"a suite, in a suite", "store/storetest/x.go", imports("~/internal/pgtest"), 0},
		{"no floor", "attic/x.go", "package x", 1},
		{"from nowhere", "server/x.go", imports("~/attic"), 1},
	} {
		e.run(t, checkImports)
	}
}

// TestAWorkerNeedsNoServer follows the imports of the package worker, which programs elsewhere import: it needs no part
// of the server, no database, and three modules.
func TestAWorkerNeedsNoServer(t *testing.T) {
	const modules = "github.com/cenkalti/backoff/v5 github.com/google/uuid golang.org/x/sync/errgroup"
	imports := map[string][]string{}
	for _, f := range tree(t) {
		if !f.test {
			imports[f.folder()] = append(imports[f.folder()], slices.Collect(maps.Values(importsOf(f)))...)
		}
	}
	seen, foreign := map[string]bool{}, []string{}
	var follow func(folder string)
	follow = func(folder string) {
		for _, at := range imports[folder] {
			first, _, _ := strings.Cut(at, "/")
			to, ours := strings.CutPrefix(at+"/", module+"/")
			to = path.Clean(to) // "." for the root
			switch {
			case seen[at] || !ours && !strings.Contains(first, "."):
				continue
			case !ours:
				foreign = append(foreign, at)
			default:
				follow(to)
			}
			seen[at] = true
		}
	}
	follow("worker")
	slices.Sort(foreign)
	if got := strings.Join(foreign, " "); got != modules {
		t.Errorf("a worker needs the modules %s, want %s", got, modules)
	}
	if len(seen) < 15 || !seen[module] || !seen[module+"/engine"] {
		t.Errorf("a worker needs only %v", seen)
	}
	for _, folder := range append([]string{"ledger", "server", "app", "agent", "channel", "doctor", "issues", "web"},
		concrete...) {
		for at := range seen {
			if within(strings.TrimPrefix(at, module+"/"), folder) {
				t.Errorf("a worker needs %s", at)
			}
		}
	}
}
