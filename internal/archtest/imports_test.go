package archtest

import (
	"go/ast"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// floors gives each folder its floor, in the order of the floors. A folder inside one of
// these shares its floor. A package imports only packages of floors below its own, and
// its own subpackages.
var floors = map[string]int{
	"internal/recovery":   ground, // recovers from panics in goroutines
	"internal/jsontext":   ground, // scans and appends JSON
	"internal/lazyregexp": ground, // compiles regular expressions when they are needed
	"internal/porttest":   ground, // for tests: reserves ports
	"internal/buildtest":  ground, // for tests: builds the programs that they start
	".":                   1,      // standard library only
	// leaf: the folders in internal that are not listed here
	"entry":                   3, // bodies of entries, and their encoding
	"auth":                    3, // tokens, permissions and quotas
	"store":                   4, // the seam and its rows
	"store/internal":          5, // the encoding of rows and what stores in SQL databases share
	"thread":                  5, // the state machine of a thread
	"project":                 6, // reservations and notifications
	"bus":                     7,
	"ledger":                  8,
	"store/memory":            8,
	"store/postgres":          8,
	"store/sqlite":            8,
	"store/transfer":          8, // copies and compares stores
	"doctor":                  8,
	"issues/tracker":          8, // issues in a file
	"api":                     8, // the wire types, for server and client
	"app/command":             8, // streams, output and exit codes of the commands
	"store/storetest":         9, // for tests; it runs the doctor
	"engine":                  9,
	"stream":                  9,
	"agent":                   9,
	"channel":                 9,  // the interface that the platforms above implement
	"issues/mail":             9,  // reserves issues and notifies agents, over HTTP
	"client":                  9,  // the Go client
	"clients/js":              9,  // the modules of the JavaScript client, embedded
	"server/internal/request": 9,  // what the handlers of all requests use
	"app/datadir":             9,  // the data folder of a server
	"alert/webpush":           8,  // the requests of Web Push
	"alert":                   10, // notifies people, with links that decide
	"channel/chat":            10, // the interface of chat platforms
	"issues/feed":             10, // a channel: gives the issues of a file to agents
	"issues/bd":               10, // the commands of bd
	"web":                     10, // the pages; cmd passes them to the server
	"remote":                  10, // a server's ledger, for a remote engine
	"server/ws":               10, // WebSockets
	"server/workers":          10, // the operations of workers in other processes
	"protocol":                10, // protocols over the client; cmd passes them to the server
	"internal/killpoint":      10, // for torture: kills the process at a chosen point
	"app/endpoint":            10, // finds the server that a command talks to
	"channel/kind":            11, // a platform as one value
	"channel/httpcall":        11, // HTTP calls to a platform
	"server/operate":          11, // what operators and the console ask
	"server":                  12,
	"alert/target":            12, // the kinds of targets
	"app/cli":                 11, // the commands that talk to a server
	"channel/chat/room":       12, // what a room shows, as a pure state machine
	"app/config":              16, // the settings of a server, and the kinds of channels and targets
	"channel/chat/inbound":    13, // handles events
	"channel/chat/outbound":   13, // sends deliveries
	"channel/chat/adapter":    14, // what chat platforms share
	"alert/mail":              15,
	"channel/channeltest":     15, // for tests: the suite of all channels
	"channel/discord":         15,
	"channel/irc":             15,
	"channel/matrix":          15,
	"channel/poll":            15,
	"channel/slack":           15,
	"channel/telegram":        15,
	"channel/webhook":         15,
	"app/storage":             17, // opens, checks, copies and replaces a store
	"app/node":                18, // builds a server from its parts
	"cmd/mailroom":            19,
	"cmd/bd":                  19,
	"bench":                   19, // measures a server, bd, and other queues
	"torture":                 19, // drives the binary, from outside
}

const (
	// ground is the floor of packages that use the standard library only.
	ground = 0

	// leaf is the floor of the folders in internal that floors does not list: small
	// packages that import only the root and the ground, not each other, so that every
	// package above may import them.
	leaf = 2
)

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
	for base := folder; ; base = path.Dir(base) {
		if n, ok := floors[base]; ok && (base != "." || folder == ".") {
			return n, true
		}
		if base == "internal" {
			return leaf, true
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
		if i := slices.IndexFunc(f.ast.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"mailroom/doctor/fold"` }); i >= 0 && !within(from, "doctor") && !within(from, "torture") {
			return []string{f.finding(f.ast.Imports[i].Pos(), "tests of %s import the fold, which judges logs independently of them", from)}
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
	case within(to, "issues") && !slices.ContainsFunc(users, func(folder string) bool { return within(from, folder) }):
		return "only the commands, bench and tests use issues"
	case at == ground, from == ".":
		return "it may use the standard library only"
	case at == leaf && below >= leaf:
		return "packages of internal that floors does not list may use only the root and the ground"
	case at > leaf && within(to, from):
		return "" // its own subpackages
	case below >= at:
		return "imports must point down: from floor " + strconv.Itoa(at) + " not to " + strconv.Itoa(below)
	}
	return ""
}

func TestForbiddenImportsAreFound(t *testing.T) {
	imports := func(target string) string { return "package x\nimport _ \"" + target + "\"\n" }
	for _, e := range []example{
		{"root, standard library", "x.go", imports("net/http"), 0},
		{"root, a library", "x.go", imports("github.com/google/uuid"), 1},
		{"root, anything of ours", "x.go", imports("mailroom/bus"), 1},
		{"root, the ground", "x.go", imports("mailroom/internal/recovery"), 1},
		{"root, in a test", "x_test.go", imports("mailroom/store/memory"), 0},
		{"down", "engine/x.go", imports("mailroom/ledger"), 0},
		{"down to the root", "stream/x.go", imports("mailroom"), 0},
		{"sideways", "bus/x.go", imports("mailroom/ledger"), 1},
		{"sideways within a family", "agent/exec/x.go", imports("mailroom/agent/builtin"), 1},
		{"up", "bus/x.go", imports("mailroom/engine"), 1},
		{"own inner package", "store/sqlite/x.go", imports("mailroom/store/sqlite/schema"), 0},
		{"concrete store", "server/x.go", imports("mailroom/store/sqlite"), 1},
		{"concrete store, test", "server/x_test.go", imports("mailroom/store/sqlite"), 0},
		{"concrete store, command", "cmd/mailroom/x.go", imports("mailroom/store/sqlite"), 0},
		{"internal", "agent/exec/x.go", imports("mailroom/internal/proc"), 0},
		{"internal uses the root", "internal/display/x.go", imports("mailroom"), 0},
		{"internal uses more", "internal/display/x.go", imports("mailroom/bus"), 1},
		{"internal uses internal", "internal/display/x.go", imports("mailroom/internal/check"), 1},
		{"internal uses its own inner package", "internal/display/x.go", imports("mailroom/internal/display/inner"), 1},
		{"the first floor above internal", "entry/x.go", imports("mailroom/internal/check"), 0},
		{"internal uses the ground", "internal/display/x.go", imports("mailroom/internal/recovery"), 0},
		{"a server's parts in a command", "app/cli/x.go", imports("mailroom/ledger"), 1},
		{"a concrete channel in a command", "app/cli/x.go", imports("mailroom/channel/irc"), 1},
		{"the client in a command", "app/cli/x.go", imports("mailroom/client"), 0},
		{"the wiring of a server", "cmd/mailroom/x.go", imports("mailroom/app/node"), 0},
		{"the fold, in a random model", "ledger/x_test.go", imports("mailroom/doctor/fold"), 1},
		{"the fold, in its own judge", "torture/x_test.go", imports("mailroom/doctor/fold"), 0},
		{"the wiring of a server, elsewhere", "torture/x.go", imports("mailroom/app/node"), 1},
		{"the roof", "app/config/x.go", imports("mailroom/channel/kind"), 0},
		{"the roof, from below", "server/x.go", imports("mailroom/app/config"), 1},
		{"internal uses the roof", "internal/display/x.go", imports("mailroom/app/config"), 1},
		{"the ground uses the root", "internal/recovery/x.go", imports("mailroom"), 1},
		{"the ground uses internal", "internal/recovery/x.go", imports("mailroom/internal/check"), 1},
		{"the ground uses the ground", "internal/recovery/x.go", imports("mailroom/internal/jsontext"), 1},
		{"issues, configuration", "app/config/x.go", imports("mailroom/issues/feed"), 1},
		{"issues", "server/x.go", imports("mailroom/issues/tracker"), 1},
		{"issues, command", "cmd/mailroom/x.go", imports("mailroom/issues/bd"), 0},
		{"within issues", "issues/bd/x.go", imports("mailroom/issues/mail"), 0},
		{"no floor", "attic/x.go", "package x", 1},
		{"from nowhere", "server/x.go", imports("mailroom/attic"), 1},
	} {
		e.run(t, checkImports)
	}
}
