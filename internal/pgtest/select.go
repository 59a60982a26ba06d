package pgtest

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Select returns the rows of a query as text, with "" for NULL. It connects to the cluster directly, not through a
// Proxy.
func (c *Cluster) Select(ctx context.Context, query string, args ...any) (rows [][]string, err error) {
	err = c.with(ctx, func(conn *pgx.Conn) error {
		found, err := conn.Query(ctx, query, args...)
		if err != nil {
			return err
		}
		rows, err = pgx.CollectRows(found, func(row pgx.CollectableRow) (texts []string, err error) {
			values, err := row.Values()
			for _, v := range values {
				if v == nil {
					v = ""
				}
				texts = append(texts, fmt.Sprint(v))
			}
			return texts, err
		})
		return err
	})
	return rows, err
}
