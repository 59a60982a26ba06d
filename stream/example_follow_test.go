package stream_test

import (
	"context"
	"errors"
	"fmt"

	"mailroom"
	"mailroom/bus"
	"mailroom/ledger"
	"mailroom/store/memory"
	"mailroom/stream"
	"mailroom/thread"
)

// Follow a thread from a cursor: first its log, then what is committed from now on. The bus only announces; each
// entry is read from the store, so a reader misses nothing if a notice is lost.
func ExampleStreams_Follow() {
	ctx := context.Background()
	b := bus.New()
	l := ledger.New(memory.New(), ledger.Options{Publish: func(id string, entries []mailroom.Entry) {
		b.Publish(bus.Notice{Thread: id, Entries: entries})
	}})
	committer, end := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- l.Run(committer) }()
	send := func(text string) {
		_, err := l.Submit(ctx, thread.Submit{Thread: "t", Messages: []thread.NewMessage{{Parts: mailroom.Text(text)}}})
		if err != nil {
			panic(err)
		}
	}

	send("one")
	enough := errors.New("enough")
	err := stream.New(l, b).Follow(ctx, stream.Query{Thread: "t"}, func(e stream.Event) error {
		if e.Entry == nil { // live text, or a gap
			return nil
		}
		fmt.Println(e.Entry.Seq, e.Entry.Kind)
		switch e.Entry.Seq {
		case 2:
			send("two") // arrives live
		case 4:
			return enough
		}
		return nil
	})
	fmt.Println(err)
	end()
	<-ended
	// Output:
	// 1 message
	// 2 run.queued
	// 3 message
	// 4 run.queued
	// enough
}
