package pgtest

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Standby starts a standby of the cluster, with the settings of the cluster. The standby is synchronous if the
// cluster has the setting synchronous_standby_names=*.
func (c *Cluster) Standby(ctx context.Context) (*Cluster, error) {
	return create(ctx, Options{Settings: c.settings}, func(s *Cluster) error {
		return s.run(ctx, filepath.Join(s.bin, "pg_basebackup"), "-d", c.URL(), "-D", s.data(), "--write-recovery-conf",
			"--checkpoint=fast", "--no-sync")
	})
}

// URLOf returns a connection string of several clusters. One of them accepts writes.
func URLOf(clusters ...*Cluster) string {
	var dirs []string
	for _, c := range clusters {
		dirs = append(dirs, c.dir)
	}
	return "host=" + strings.Join(dirs, ",") + " user=" + role + " dbname=" + database + " target_session_attrs=read-write"
}

// Promote makes a standby a primary, and waits until it is a primary. The old primary keeps running.
func (c *Cluster) Promote(ctx context.Context) error {
	return c.with(ctx, func(conn *pgx.Conn) error {
		var promoted bool
		if err := conn.QueryRow(ctx, "SELECT pg_promote()").Scan(&promoted); err != nil {
			return fmt.Errorf("promote a standby: %w", err)
		}
		if !promoted {
			return fmt.Errorf("the standby in %s is not promoted within a minute", c.dir)
		}
		return nil
	})
}
