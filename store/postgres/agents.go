package postgres

import (
	"slices"

	"mailroom/store"
)

const (
	putDefinitions = `INSERT INTO definition (agent, version, body) SELECT agent, version, nullif(body, ''::bytea)
		FROM unnest($1::text[], $2::text[], $3::bytea[]) u (agent, version, body) ORDER BY agent, version
		ON CONFLICT (agent, version) DO NOTHING`
	putPauses = `INSERT INTO pause (agent, by, reason, at, probe) SELECT agent, by, reason, at, nullif(probe, 0)
		FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[]) u (agent, by, reason, at, probe)
		ORDER BY agent
		ON CONFLICT (agent) DO UPDATE SET by = excluded.by, reason = excluded.reason, at = excluded.at,
		probe = excluded.probe`
	dropPauses      = "DELETE FROM pause WHERE agent = ANY ($1::text[])"
	dropDefinitions = `DELETE FROM definition d USING unnest($1::text[], $2::text[]) u (agent, version)
		WHERE d.agent = u.agent AND d.version = u.version`
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

// writeDefinitions does not change an existing version.
func (w *writing) writeDefinitions(definitions []store.Definition) {
	firsts := slices.Clone(definitions)
	slices.Reverse(firsts)
	type version struct{ agent, version string }
	rows := lastOfEach(firsts, func(d store.Definition) version { return version{d.Agent, d.Version} })
	var agents, versions []string
	var bodies [][]byte
	for _, d := range rows {
		agents, versions, bodies = append(agents, d.Agent), append(versions, d.Version), append(bodies, notNil(d.Body))
	}
	if len(rows) > 0 {
		w.trip.add(nil, putDefinitions, agents, versions, bodies)
	}
}

func (w *writing) dropDefinitions(definitions []store.Definition) {
	var agents, versions []string
	for _, d := range definitions {
		agents, versions = append(agents, d.Agent), append(versions, d.Version)
	}
	if len(agents) > 0 {
		w.trip.add(nil, dropDefinitions, agents, versions)
	}
}

func (w *writing) writePauses(pauses []store.Pause) {
	rows := lastOfEach(pauses, func(p store.Pause) string { return p.Agent })
	var agents, by, reasons []string
	var at, probes []int64
	for _, p := range rows {
		agents, by, reasons = append(agents, p.Agent), append(by, p.By), append(reasons, p.Reason)
		at, probes = append(at, p.At.UnixMicro()), append(probes, micros(p.Probe))
	}
	if len(rows) > 0 {
		w.trip.add(nil, putPauses, agents, by, reasons, at, probes)
	}
}
