package node

import (
	"testing"

	"mailroom/app/command"
	"mailroom/app/datadir"
)

func TestABridgeHasItsOwnDataFolder(t *testing.T) {
	con := &command.Console{Env: func(name string) string { return map[string]string{"XDG_DATA_HOME": "/xdg"}[name] }}
	for workspace, want := range map[string]datadir.Dir{"ws-1": "/xdg/mailroom-bridge-ws-1",
		"../x": "/xdg/mailroom-bridge-..%2Fx"} {
		if got, err := bridgeDir(con, workspace); got != want || err != nil {
			t.Errorf("%s: %s, %v, want %s", workspace, got, err, want)
		}
	}
}
