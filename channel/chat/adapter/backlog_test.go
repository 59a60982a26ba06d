package adapter_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/store"
)

// slowFile is a file whose download blocks until release.
type slowFile struct {
	mu    sync.Mutex
	opens int
	come  chan struct{}
}

func newSlowFile() *slowFile { return &slowFile{come: make(chan struct{})} }

func (s *slowFile) open(ctx context.Context) (io.ReadCloser, error) {
	s.mu.Lock()
	s.opens++
	s.mu.Unlock()
	select {
	case <-s.come:
		return io.NopCloser(strings.NewReader("content")), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *slowFile) opened() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opens
}

func (s *slowFile) release() { close(s.come) }

// sendFile sends a private message with files.
func (w *fixture) sendFile(user, text string, files ...chat.File) chat.Event {
	return w.platform.AddEvent(chat.Event{
		Kind: chat.EventMessage, Room: PrivateRoom(user), User: chat.User{ID: user, Name: "Name of " + user}, Text: text,
		Files: files,
	})
}

func TestASlowFileDelaysOnlyItsConversation(t *testing.T) {
	w := newFixture(t)
	w.access.AllowAll = true
	file := newSlowFile()
	w.start()
	w.sendFile(boss, "look", w.platform.File("a.txt", file.open), w.platform.File("b.txt", file.open))
	w.platform.SendPrivate(boss, "after")
	for i := range 10 {
		w.platform.SendPrivate(fmt.Sprint("person ", i), fmt.Sprint("hello ", i))
	}
	w.platform.AwaitReceived() // the waiting messages are committed
	for i := range 10 {
		w.awaitText(fmt.Sprintf("hello %d!", i))
	}
	if heard := w.awaitHeard(10); slices.Contains(heard, "look") || slices.Contains(heard, "after") {
		t.Errorf("agent received %q before the download", heard)
	}
	file.release()
	heard := w.awaitHeard(12)
	wantEqual(t, "messages in the end", heard[10:], []string{"look\nFile a.txt:\ncontent\nFile b.txt:\ncontent", "after"})
	wantEqual(t, "fetches", file.opened(), 2)
}

func TestTheBacklogOutlivesTheConnection(t *testing.T) {
	w := newFixture(t)
	file := newSlowFile()
	w.start()
	w.sendFile(boss, "look", w.platform.File("a.txt", file.open))
	w.platform.SendPrivate(boss, "after")
	w.platform.AwaitReceived()
	w.stop()
	file.release()
	w.platform.Redeliver(0) // a platform that repeats deliveries
	w.start()
	w.awaitText("after!")
	w.awaitSettled()
	wantEqual(t, "messages to the agent", w.awaitHeard(2), []string{"look\nFile a.txt:\ncontent", "after"})
	if n := file.opened(); n > 2 {
		t.Errorf("%d downloads of the file", n)
	}
}

func TestAKnownMessageFetchesNothing(t *testing.T) {
	w := newFixture(t)
	file := newSlowFile()
	file.release()
	w.start()
	w.sendFile(boss, "look", w.platform.File("a.txt", file.open))
	w.awaitHeard(1)
	w.awaitSettled()
	w.platform.Redeliver(0)
	w.platform.SendPrivate(boss, "after")
	w.awaitText("after!")
	wantEqual(t, "fetches", file.opened(), 1)
	wantEqual(t, "messages to the agent", len(w.awaitHeard(2)), 2)
}

func TestAStopDoesNotWaitForFiles(t *testing.T) {
	w := newFixture(t)
	file := newSlowFile() // never downloads
	w.start()
	w.sendFile(boss, "look", w.platform.File("a.txt", file.open))
	w.platform.SendPrivate(boss, "hold")
	w.platform.SendPrivate(boss, "/status")
	w.awaitText("This conversation has no messages yet") // at once
	w.platform.SendPrivate(boss, "/stop")
	w.awaitText("top")
	w.awaitSettled()
	w.platform.SendPrivate(boss, "after")
	w.awaitText("after!")
}

func TestTooManyFilesAreDroppedButNoMessage(t *testing.T) {
	w := newFixture(t)
	w.access.AllowAll = true
	file := newSlowFile()
	w.start()
	var want []string
	for i := range 12 { // of one conversation
		w.sendFile(boss, fmt.Sprint("mine ", i), w.platform.File("a.txt", file.open))
		want = append(want, fmt.Sprint("mine ", i))
	}
	for i := range 80 { // of many conversations
		w.sendFile(fmt.Sprint("person ", i), fmt.Sprint("theirs ", i), w.platform.File("a.txt", file.open))
	}
	w.platform.AwaitReceived()
	file.release()
	var mine []string
	for _, text := range w.awaitHeard(92) {
		first, _, _ := strings.Cut(text, "\n")
		if strings.HasPrefix(first, "mine") {
			mine = append(mine, first)
		}
	}
	wantEqual(t, "of one conversation, in order", mine, want)
}

// TestAKillAnywhereLosesNoMessageWithAFile kills the channel at each write of a message with a
// file and one behind it.
func TestAKillAnywhereLosesNoMessageWithAFile(t *testing.T) {
	for _, applied := range []bool{false, true} {
		writes := 0
		for killed := true; killed; writes++ {
			w := newFixture(t)
			file := newSlowFile()
			file.release()
			w.start()
			died := w.faults.arm(writes+1, applied)
			w.sendFile(boss, "look", w.platform.File("a.txt", file.open))
			w.platform.SendPrivate(boss, "after")
			w.await("the kill, or the end", func(r store.Reader) bool {
				select {
				case <-died:
					return true
				default:
				}
				rows, err := r.Cursors(store.CursorQuery{Channel: channel.LogThreadID("tg") + ":backlog:" + BotID})
				return err == nil && len(rows) == 1 && string(rows[0].Position) == "[]" && len(w.platform.Sent()) == 2
			})
			if killed = w.faults.isDead(); killed {
				w.stop()
				w.faults.revive()
				w.start()
			}
			w.awaitText("after!")
			w.awaitSettled()
			wantEqual(t, fmt.Sprintf("messages to the agent when killed at write %d (applied: %v)", writes+1, applied),
				w.awaitHeard(2), []string{"look\nFile a.txt:\ncontent", "after"})
			w.stop()
		}
		if writes < 6 {
			t.Errorf("only %d kills, want more", writes)
		}
	}
}

func TestAPairingCodeThatCouldNotBeSentCanBeAskedForAgain(t *testing.T) {
	w := newFixture(t)
	fail := true
	var mu sync.Mutex
	w.platform.Hook(CallSend, func(_ context.Context, c CallArgs) error {
		mu.Lock()
		defer mu.Unlock()
		if fail {
			fail = false
			return errors.New("no route")
		}
		c.Do()
		return nil
	})
	w.start()
	w.platform.SendPrivate(stranger, "hello")
	w.await("a failed try", func(store.Reader) bool {
		return strings.Contains(w.logs.String(), "pairing code could not be sent")
	})
	for i := 0; len(w.platform.Sent()) == 0; i++ { // until the failure is recorded
		w.platform.SendPrivate(stranger, fmt.Sprint("hello? ", i))
		w.platform.AwaitReceived()
	}
	sent := w.awaitText("mailroom pair approve ").Versions[0].Text
	_, code, _ := strings.Cut(sent, "mailroom pair approve ")
	p := chat.PairingOperator{Ledger: w.ledger, Channel: "tg"}
	if _, err := p.Approve(t.Context(), strings.Fields(code)[0], false, "test"); err != nil {
		t.Errorf("code of the second attempt: %v", err)
	}
	w.platform.SendPrivate(stranger, "and now")
	w.awaitText("and now!")
}

func TestASlowPairingCodeDelaysNoOther(t *testing.T) {
	w := newFixture(t)
	hang := make(chan struct{})
	w.platform.Hook(CallSend, func(ctx context.Context, c CallArgs) error {
		if c.Room == PrivateRoom(stranger) {
			select {
			case <-hang:
			case <-ctx.Done():
			}
			return ctx.Err()
		}
		c.Do()
		return nil
	})
	w.start()
	w.platform.SendPrivate(stranger, "hello")
	w.platform.SendPrivate(boss, "quick")
	w.awaitText("quick!")
	close(hang)
}
