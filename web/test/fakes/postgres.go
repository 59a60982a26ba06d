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

// runPostgres runs a cluster until the input ends.
func runPostgres(ctx context.Context) (err error) {
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
