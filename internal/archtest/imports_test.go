package archtest

import (
	"go/ast"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// floors gives each folder its floor; a folder inside one of them shares it. A
// package imports only from floors below its own.
var floors = map[string]int{
	".":                       -5, // standard library only
	"entry":                   -4, // bodies of entries, and their encoding
	"auth":                    -4, // tokens, permissions and quotas
	"store":                   -3, // the seam and its rows
	"store/internal":          -2, // the encoding of rows, for the stores of databases
	"internal/thread":         -2, // the state machine of a thread
	"project":                 -1, // reservations and notifications
	"dispatch":                0,  // the hand-over of runs to workers
	"ledger":                  1,
	"bus":                     1,
	"store/memory":            1,
	"store/sqlite":            1,
	"internal/metrics":        1, // what a server counts
	"doctor":                  1,
	"store/storetest":         2, // for tests; it runs the doctor
	"engine":                  2,
	"stream":                  2,
	"agent":                   2,
	"channel":                 2, // the interface that the platforms above implement
	"channel/chat":            3, // the interface of chat platforms
	"channel/chat/limiter":    4, // rate limits of a platform
	"channel/chat/chunk":      4, // splits texts
	"channel/chat/command":    4, // what users type
	"channel/chat/pairing":    4, // access by a code
	"channel/chat/question":   5, // how a ticket looks in a chat
	"channel/chat/room":       5, // what a room shows, as a pure state machine
	"channel/chat/inbound":    6, // handles events
	"channel/chat/outbound":   6, // sends deliveries
	"channel/chat/adapter":    7, // what chat platforms share
	"channel/channeltest":     8, // for tests: the suite of all channels
	"channel/markdown":        3, // renders replies
	"channel/kind":            4, // a platform as one value
	"channel/httpcall":        4, // HTTP calls to a platform
	"channel/discord":         8,
	"channel/irc":             8,
	"channel/matrix":          8,
	"channel/poll":            8,
	"channel/slack":           8,
	"channel/telegram":        8,
	"channel/webhook":         8,
	"issues/tracker":          1, // issues in a file
	"issues/mail":             2, // reserves issues and notifies agents, over HTTP
	"issues/feed":             3, // a channel: gives the issues of a file to agents
	"issues/bd":               3, // the commands of bd
	"api":                     1, // the wire types, for server and client
	"client":                  2, // the Go client
	"clients/js":              2, // the modules of the JavaScript client, embedded
	"web":                     3, // the pages; cmd passes them to the server
	"remote":                  3, // a server's ledger, for a remote engine
	"server":                  4,
	"server/ws":               3,  // WebSockets
	"server/workers":          3,  // the operations of workers in other processes
	"server/internal/invalid": 1,  // refusals of requests
	"server/internal":         2,  // refusals and wire objects, for the packages of the server
	"protocol":                3,  // protocols over the client; cmd passes them to the server
	"internal/datadir":        2,  // the data folder of a server
	"internal/killpoint":      3,  // for torture: kills the process at a chosen point
	"internal/console":        1,  // streams, output and exit codes of the commands
	"internal/endpoint":       3,  // finds the server that a command talks to
	"internal/cli":            4,  // the commands that talk to a server
	"internal/config":         5,  // the settings of a server
	"internal/platforms":      9,  // the list of the platforms
	"internal/setup":          9,  // adds a channel to the configuration
	"internal/backup":         3,  // checks, copies and replaces a store
	"internal/bench":          9,  // measures a server from inside
	"internal/node":           10, // builds a server from its parts
	"cmd/mailroom":            11,
	"cmd/bd":                  11,
	"bench":                   11, // a module of its own: measures bd, and the peers, from outside
	"torture":                 11, // drives the binary, from outside
}

// users of issues are these folders and tests only.
var users = []string{"issues", "cmd", "bench", "internal/config", "internal/node"}

// concrete stores are named by these folders and tests only.
var (
	concrete = []string{"store/memory", "store/sqlite", "store/postgres"}
	wiring   = []string{"cmd", "internal/node", "internal/backup", "internal/bench", "internal/datadir"}
)

// closed are folders that only these folders may import.
//
// archtest: a table, never written.
var closed = map[string][]string{
	"internal/node": {"cmd"},
	"doctor/fold":   {"doctor", "torture"},
}

// apart are folders that these folders must not import, though they are below them.
//
// archtest: a table, never written.
var apart = map[string][]string{
	"internal/cli": {"ledger", "store", "engine", "server", "channel"}, // it knows a server only by its API
}

const leaf = -10 // the floor of other folders in internal: every package may import them; they import only the root and the ground

// ground is below all floors but the root's rule: it uses the standard library only.
var ground = []string{"internal/recovery", "internal/jsontext"}

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
	case slices.Contains(ground, from):
		return "it may use the standard library only"
	case slices.Contains(ground, to) && from != ".":
		return ""
	case at == leaf && to != ".":
		return "internal packages may use only the root and " + strings.Join(ground, ", ")
	case at == leaf, below == leaf:
		return ""
	case within(to, from) && from != ".":
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
		{"root, in a test", "x_test.go", imports("mailroom/store/memory"), 0},
		{"down", "engine/x.go", imports("mailroom/ledger"), 0},
		{"down to the root", "stream/x.go", imports("mailroom"), 0},
		{"sideways", "bus/x.go", imports("mailroom/ledger"), 1},
		{"sideways within a family", "agent/exec/x.go", imports("mailroom/agent/echo"), 1},
		{"up", "bus/x.go", imports("mailroom/engine"), 1},
		{"own inner package", "store/sqlite/x.go", imports("mailroom/store/sqlite/schema"), 0},
		{"concrete store", "server/x.go", imports("mailroom/store/sqlite"), 1},
		{"concrete store, test", "server/x_test.go", imports("mailroom/store/sqlite"), 0},
		{"concrete store, command", "cmd/mailroom/x.go", imports("mailroom/store/sqlite"), 0},
		{"internal", "agent/exec/x.go", imports("mailroom/internal/proc"), 0},
		{"internal uses the root", "internal/filter/x.go", imports("mailroom"), 0},
		{"internal uses more", "internal/filter/x.go", imports("mailroom/bus"), 1},
		{"internal uses the guard", "internal/filter/x.go", imports("mailroom/internal/recovery"), 0},
		{"a server's parts in a command", "internal/cli/x.go", imports("mailroom/ledger"), 1},
		{"a concrete channel in a command", "internal/cli/x.go", imports("mailroom/channel/irc"), 1},
		{"the client in a command", "internal/cli/x.go", imports("mailroom/client"), 0},
		{"the wiring of a server", "cmd/mailroom/x.go", imports("mailroom/internal/node"), 0},
		{"the fold, in a random model", "ledger/x_test.go", imports("mailroom/doctor/fold"), 1},
		{"the fold, in its own judge", "torture/x_test.go", imports("mailroom/doctor/fold"), 0},
		{"the wiring of a server, elsewhere", "torture/x.go", imports("mailroom/internal/node"), 1},
		{"internal with a floor", "internal/config/x.go", imports("mailroom/channel/kind"), 0},
		{"internal with a floor, from below", "server/x.go", imports("mailroom/internal/config"), 1},
		{"internal uses internal with a floor", "internal/filter/x.go", imports("mailroom/internal/config"), 1},
		{"the guard uses the root", "internal/recovery/x.go", imports("mailroom"), 1},
		{"issues", "server/x.go", imports("mailroom/issues/tracker"), 1},
		{"issues, command", "cmd/mailroom/x.go", imports("mailroom/issues/bd"), 0},
		{"within issues", "issues/bd/x.go", imports("mailroom/issues/mail"), 0},
		{"no floor", "attic/x.go", "package x", 1},
		{"from nowhere", "server/x.go", imports("mailroom/attic"), 1},
	} {
		e.run(t, checkImports)
	}
}
