package main

import (
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"mailroom-bench": main}) }

// TestSessions runs each file of testdata as a session of a user. In addition to the commands of testscript, the files
// can use
//
//	exits CODE CMD…   like exec, for a command that must exit with CODE
//	field PATH        the JSON object in the last output has this path
//
// and the folder of the client libraries, $CLIENTS.
func TestSessions(t *testing.T) {
	clients, err := filepath.Abs("../../clients")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			env.Setenv("CLIENTS", clients)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": func(ts *testscript.TestScript, _ bool, args []string) {
				exit, ok := errors.AsType[*exec.ExitError](ts.Exec(args[1], args[2:]...))
				if !ok || strconv.Itoa(exit.ExitCode()) != args[0] {
					ts.Fatalf("%s: %v, want the exit code %s", args[1], exit, args[0])
				}
			},
			"field": func(ts *testscript.TestScript, _ bool, args []string) {
				var v any
				ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &v))
				for key := range strings.SplitSeq(args[0], ".") {
					if list, ok := v.([]any); ok && len(list) > 0 {
						v = list[0] // the key is 0
					} else {
						object, _ := v.(map[string]any)
						v = object[key]
					}
				}
				if v == nil {
					ts.Fatalf("no %s", args[0])
				}
			},
		},
	})
}
