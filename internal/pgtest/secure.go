package pgtest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"mailroom/internal/machinetest"
)

// Port returns the port of a cluster with a certificate on 127.0.0.1.
func (c *Cluster) Port() int { return c.port }

// secure makes the server listen with TLS if o has a certificate.
func (c *Cluster) secure(o Options) (err error) {
	if len(o.Certificate) == 0 {
		return nil
	}
	for name, content := range map[string][]byte{"server.crt": o.Certificate, "server.key": o.Key} {
		path := filepath.Join(c.data(), name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return err
		}
		if err := c.user.give(path); err != nil {
			return err
		}
	}
	if c.held, err = machinetest.Hold(); err != nil {
		return fmt.Errorf("reserve a port: %w", err)
	}
	c.port = c.held.Number
	c.settings = slices.Concat(c.settings, []string{"ssl=on", "listen_addresses=127.0.0.1",
		"port=" + strconv.Itoa(c.port)})
	return nil
}
