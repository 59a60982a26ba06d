package postgres

import (
	"mailroom"
	"mailroom/internal/nextversion"
)

// known returns what this program knows of the tables. The next version (internal/nextversion) adds two versions of
// them: a column, and an index that is built beside running servers.
func known() (code, error) {
	c, err := released()
	if nextversion.Kind() == "" {
		return c, err
	}
	c.expand = append(c.expand,
		migration{version: c.version + 1, text: "ALTER TABLE thread ADD COLUMN noted bigint;"},
		migration{version: c.version + 2, text: noTransaction +
			"CREATE INDEX CONCURRENTLY IF NOT EXISTS thread_noted ON thread (key) WHERE noted < 0;"},
	)
	c.version += 2
	return c, err
}

// writeNext writes the column of the next version, which repeats the field of the body. This version does nothing.
func (w *writing) writeNext(rows []*mailroom.Thread) {
	if nextversion.Kind() == "" || len(rows) == 0 {
		return
	}
	var ids []string
	var noted []int64
	for _, row := range rows {
		ids, noted = append(ids, row.ID), append(noted, nextversion.Noted(row.Newer))
	}
	w.trip.add(nil, `UPDATE thread t SET noted = u.n FROM unnest($1::text[], $2::bigint[]) u (id, n)
		WHERE t.id = u.id`, ids, noted)
}
