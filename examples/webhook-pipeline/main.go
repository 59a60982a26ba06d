// Orders come in by signed webhooks, are worked on in steps, and their results go out by signed webhooks.
//
//	orders work              serves the agent "orders"
//	orders receive           prints the results that Mailroom posts
//	orders send 7 tiles 3    posts order 7: three tiles
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"mailroom/worker"
)

func main() {
	log.SetFlags(0)
	args := os.Args[1:]
	switch {
	case len(args) == 1 && args[0] == "work":
		worker.Main("orders", handle)
	case len(args) == 1 && args[0] == "receive":
		log.Fatal(receive())
	case len(args) == 4 && args[0] == "send":
		if err := send(context.Background(), args[1], args[2], args[3]); err != nil {
			log.Fatal(err)
		}
	default:
		fmt.Fprintln(os.Stderr, "usage: orders work | receive | send ORDER ITEM AMOUNT")
		os.Exit(2)
	}
}

// setting returns a variable of the environment.
func setting(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}
