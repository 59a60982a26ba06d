package cli

import (
	"bytes"
	"cmp"
	"context"
	_ "embed" // the plug-in
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"mailroom/app/command"
)

// opencodePlugin is the plug-in of opencode, in which SETTINGS stands for an object.
//
//go:embed opencode.js
var opencodePlugin string // archtest: the compiler writes it, no code does.

// opencodeFile is the part of opencode's configuration that has the MCP server and rings: a plug-in, which is a file
// of this command alone.
func opencodeFile(_ context.Context, con *command.Console, n *connection, want serverEntry) (p partState, err error) {
	base := cmp.Or(con.Env("XDG_CONFIG_HOME"), filepath.Join(con.Env("HOME"), ".config"))
	path := filepath.Join(base, "opencode", "plugins", "mailroom.js")
	settings, err := json.MarshalIndent(struct {
		Command string            `json:"command"`
		MCP     []string          `json:"mcp"`
		Env     map[string]string `json:"env"`
		Ring    []string          `json:"ring"`
	}{want.Command, append(want.Args, "--silent"), want.Env,
		[]string{"--context", n.context, "inbox", "wait", n.thread, "--lines", opencodeHarness}}, "", "  ")
	if err != nil {
		return p, err
	}
	mark, _, _ := strings.Cut(opencodePlugin, "\n")
	return ownFile(path, []byte(strings.Replace(opencodePlugin, "SETTINGS", string(settings), 1)), mark+"\n", false)
}

// ownFile is a part that is a file of this command. Each version of it begins with the mark. ownFolder says that its
// folder goes with the last file in it.
func ownFile(path string, want []byte, mark string, ownFolder bool) (p partState, err error) {
	text, err := readHarnessFile(path)
	if err != nil {
		return p, err
	}
	if text != nil && !bytes.HasPrefix(text, []byte(mark)) {
		return p, command.Errorf(command.ExitFailed, "remove it, or keep it", "another program has made %s", path)
	}
	wrap := func(err error) error {
		if err != nil {
			return command.Errorf(command.ExitFailed, "", "%w", err)
		}
		return nil
	}
	return partState{
		exists: text != nil, same: bytes.Equal(text, want), what: path + " is of another version or inbox",
		add: change{"write " + path, func(context.Context) error { return wrap(writeHarnessFile(path, want)) }},
		remove: change{"remove " + path, func(context.Context) error {
			err := os.Remove(path)
			if ownFolder {
				_ = os.Remove(filepath.Dir(path)) // it fails unless the folder is empty
			}
			return wrap(err)
		}},
	}, nil
}
