package transfer_test

import (
	"context"
	"fmt"

	"mailroom"
	"mailroom/ledger"
	"mailroom/store/memory"
	"mailroom/store/transfer"
	"mailroom/thread"
)

// Move to another database: copy all rows into an empty store of any kind, and compare both before you use the
// copy. No process may write the source in between.
func ExampleCopy() {
	ctx := context.Background()
	source, target := memory.New(), memory.New() // such as sqlite.Open and postgres.Open
	l := ledger.New(source, ledger.Options{})
	committer, end := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- l.Run(committer) }()
	for _, id := range []string{"anna", "bert"} {
		_, err := l.Submit(ctx, thread.Submit{Thread: id, Messages: []thread.NewMessage{{Parts: mailroom.Text("hello")}}})
		check(err)
	}
	end()
	check(<-ended)

	rows, err := transfer.Copy(ctx, source, target, func(transfer.Rows) {})
	check(err)
	fmt.Println(rows.Threads, "threads,", rows.Runs, "runs,", rows.Entries, "entries")
	equal, err := transfer.Compare(ctx, source, target, func(int) {})
	fmt.Println(equal, "threads compared:", err)
	// Output:
	// 2 threads, 2 runs, 4 entries
	// 2 threads compared: <nil>
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
