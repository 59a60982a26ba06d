// Command pgcluster runs a private PostgreSQL cluster for tests that are not written in Go.
//
// It prints the cluster's connection string. Then it reads commands from standard input, one per
// line, and answers each with the line ok: kill (SIGKILL), restart, and terminate NAME, which ends
// the connections with this application_name. It ends with its input or at the first error.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"mailroom/internal/pgtest"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "pgcluster:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	c, err := pgtest.Start(ctx, pgtest.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	fmt.Println(c.URL())
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if err := execute(ctx, c, lines.Text()); err != nil {
			return fmt.Errorf("%s: %w", lines.Text(), err)
		}
		fmt.Println("ok")
	}
	return lines.Err()
}

func execute(ctx context.Context, c *pgtest.Cluster, line string) error {
	switch command, name, _ := strings.Cut(line, " "); command {
	case "kill":
		return c.Kill()
	case "restart":
		return c.Restart(ctx)
	case "terminate":
		_, err := c.Terminate(ctx, name)
		return err
	default:
		return errors.New("unknown command")
	}
}
