// Command fakes runs servers for tests that are not written in Go. Its argument names the server:
//
//   - postgres: a private PostgreSQL cluster. The program prints its connection string. Then it reads commands from
//     standard input, one per line, and answers each with the line ok: kill (SIGKILL), restart, and terminate NAME,
//     which ends the connections with this application_name.
//   - mail: a real Exim without TLS. The program prints its address. Then it reads from standard input how many
//     messages to wait for, one number per line, and answers each with the messages in the mailbox of
//     ops@test.example, as a line of JSON.
//
// The server ends with the input of the program, or at the first error. The two are one program because linking a
// second one takes longer than all that it does.
package main

import (
	"context"
	"fmt"
	"os"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "fakes:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 1 {
		switch args[0] {
		case "postgres":
			return runPostgres(ctx)
		case "mail":
			return runMail()
		}
	}
	return fmt.Errorf("unknown server %q; use postgres or mail", args)
}
