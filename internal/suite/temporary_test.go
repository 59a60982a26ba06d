package main

import (
	"maps"
	"os"
	"testing"
)

func TestTemporaryFilesAreInMemoryWhereItSuits(t *testing.T) {
	enough := volume{free: leastFree, memory: leastMemory, programs: true, shared: true}
	with := func(change func(*volume)) volume {
		v := enough
		change(&v)
		return v
	}
	moved := map[string]string{"TMPDIR": inMemory, "GOTMPDIR": os.TempDir()}
	for name, c := range map[string]struct {
		of        volume
		env, want map[string]string
	}{
		"enough":            {enough, nil, moved},
		"no such folder":    {volume{}, nil, nil},
		"little space":      {with(func(v *volume) { v.free-- }), nil, nil},
		"little memory":     {with(func(v *volume) { v.memory-- }), nil, nil},
		"no programs":       {with(func(v *volume) { v.programs = false }), nil, nil},
		"files of one user": {with(func(v *volume) { v.shared = false }), nil, nil},
		"a folder is set":   {enough, map[string]string{"TMPDIR": "/var/tmp"}, map[string]string{"TMPDIR": "/var/tmp"}},
		"a folder of go is set": {enough, map[string]string{"GOTMPDIR": "/big"},
			map[string]string{"TMPDIR": inMemory, "GOTMPDIR": "/big"}},
	} {
		t.Run(name, func(t *testing.T) {
			env := maps.Clone(c.env)
			if env == nil {
				env = map[string]string{}
			}
			is, err := moveTemporary(c.of, func(name string) string { return env[name] }, func(name, value string) error {
				env[name] = value
				return nil
			})
			if err != nil || !maps.Equal(env, c.want) || is != (env["TMPDIR"] == inMemory) {
				t.Errorf("moved: %t, error %v, environment %v, want %v", is, err, env, c.want)
			}
		})
	}
}
