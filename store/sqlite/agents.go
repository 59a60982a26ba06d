package sqlite

import (
	"mailroom/store"
)

const (
	putDefinition = `INSERT INTO definition (agent, version, body) VALUES (?, ?, ?)
		ON CONFLICT (agent, version) DO NOTHING`
	dropDefinition = "DELETE FROM definition WHERE agent = ? AND version = ?"

	putPause = `INSERT INTO pause (agent, by, reason, at, probe) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (agent) DO UPDATE SET by = excluded.by, reason = excluded.reason, at = excluded.at,
		probe = excluded.probe`
	dropPause = "DELETE FROM pause WHERE agent = ?"
)

// Agents implements [store.Reader].
func (r reader) Agents() (rows store.AgentRows, err error) {
	err = r.query("read definitions", "SELECT agent, version, body FROM definition ORDER BY agent, version", nil,
		func(c *columns) (bool, error) {
			rows.Definitions = append(rows.Definitions, store.Definition{Agent: c.Text(), Version: c.Text(), Body: c.raw()})
			return true, nil
		})
	if err == nil {
		rows.Pauses, err = readPauses(r)
	}
	return rows, err
}

func readPauses(r reader) (found []store.Pause, err error) {
	const all = "SELECT agent, by, reason, at, probe FROM pause ORDER BY agent"
	err = r.query("read pauses", all, nil, func(c *columns) (bool, error) {
		found = append(found, store.Pause{Agent: c.Text(), By: c.Text(), Reason: c.Text(), At: c.Time(), Probe: c.Time()})
		return true, nil
	})
	return found, err
}

func writeDefinition(t *tx, d store.Definition) error {
	return t.run(putDefinition, d.Agent, d.Version, orNull(d.Body))
}

func writePause(t *tx, p store.Pause) error {
	t.store.memo.paused = false
	return t.run(putPause, p.Agent, p.By, p.Reason, p.At.UnixMicro(), micros(p.Probe))
}

func removePause(t *tx, agent string) error {
	t.store.memo.paused = false
	return t.run(dropPause, agent)
}

func removeDefinition(t *tx, d store.Definition) error {
	return t.run(dropDefinition, d.Agent, d.Version)
}
