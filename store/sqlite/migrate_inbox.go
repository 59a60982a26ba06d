package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"

	"github.com/pressly/goose/v3"

	"mailroom"
	"mailroom/project"
	"mailroom/store/internal/format"
)

// inboxVersion is the version of the tables that introduced counts of inboxes per project and of
// unread notifications per token.
const inboxVersion = 13

// countInboxes counts the inboxes of projects. Older entries do not name the token that sent a
// notification, so their unread notifications count for no token.
func countInboxes() *goose.Migration {
	return goose.NewGoMigration(inboxVersion, &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
		const add = "ALTER TABLE token ADD COLUMN notifications INTEGER NOT NULL DEFAULT 0"
		if _, err := tx.ExecContext(ctx, add); err != nil {
			return err
		}
		var projects []*mailroom.Thread
		const boxes = `t.key, t.body, c.n FROM (SELECT channel, count(*) AS n FROM cursor GROUP BY channel) c
			JOIN thread t ON t.id = c.channel`
		err := eachRow(ctx, tx, boxes, func(row []driver.Value) error {
			t, err := scanThread(&columns{row: values(row)})
			t.Inboxes, _ = row[2].(int64)
			if _, ok := project.NameOf(t.ID); ok {
				projects = append(projects, t)
			}
			return err
		})
		if err != nil {
			return err
		}
		for _, t := range projects {
			const update = "UPDATE thread SET body = ? WHERE key = ?"
			if _, err := tx.ExecContext(ctx, update, format.AppendThread(nil, t), t.Key); err != nil {
				return err
			}
		}
		return nil
	}}, nil)
}
