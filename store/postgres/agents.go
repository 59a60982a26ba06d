package postgres

import (
	"mailroom/store"
)

const (
	putDefinitions = `INSERT INTO definition (agent, version, body) SELECT agent, version, nullif(body, ''::bytea)
		FROM unnest($1::text[], $2::text[], $3::bytea[]) u (agent, version, body) ORDER BY agent, version ON CONFLICT (agent, version) DO NOTHING`
	putPauses = `INSERT INTO pause (agent, by, reason, at, probe) SELECT agent, by, reason, at, nullif(probe, 0)
		FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[]) u (agent, by, reason, at, probe) ORDER BY agent
		ON CONFLICT (agent) DO UPDATE SET by = excluded.by, reason = excluded.reason, at = excluded.at, probe = excluded.probe`
	dropPauses      = "DELETE FROM pause WHERE agent = ANY ($1::text[])"
	dropDefinitions = "DELETE FROM definition d USING unnest($1::text[], $2::text[]) u (agent, version) WHERE d.agent = u.agent AND d.version = u.version"
)

const readPauses = "SELECT agent, by, reason, at, probe FROM pause ORDER BY agent"

// Agents implements [store.Reader].
func (r reader) Agents() (rows store.AgentRows, err error) {
	t := trip{{"SELECT agent, version, body FROM definition ORDER BY agent, version", nil, func(c *columns) error {
		rows.Definitions = append(rows.Definitions, store.Definition{Agent: c.Text(), Version: c.Text(), Body: c.raw()})
		return nil
	}}}
	t.add(scanPauses(&rows.Pauses), readPauses)
	return rows, r.send("read agents", t)
}

func scanPauses(into *[]store.Pause) func(c *columns) error {
	return func(c *columns) error {
		*into = append(*into, store.Pause{Agent: c.Text(), By: c.Text(), Reason: c.Text(), At: c.Time(), Probe: c.Time()})
		return nil
	}
}
