package adapter_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mailroom/channel/chat"
	"mailroom/store"
)

// inBubble runs f with a server whose messages wait for more, in virtual time.
func inBubble(t *testing.T, wait time.Duration, f func(w *fixture)) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.poll, w.access.Join = time.Minute, wait
		w.start()
		f(w)
		w.agent.release()
		w.stop()
	})
}

// later waits in virtual time.
func (w *fixture) later(d time.Duration) { <-time.After(d) }

func (w *fixture) heard() []string {
	synctest.Wait()
	return w.awaitHeard(0)
}

func TestABurstIsOneRun(t *testing.T) {
	inBubble(t, time.Second, func(w *fixture) {
		for _, text := range []string{"one", "two", "three"} {
			w.platform.SendPrivate(boss, text)
			w.later(900 * time.Millisecond)
		}
		wantEqual(t, "messages during the burst", w.heard(), nil)
		w.later(200 * time.Millisecond)
		wantEqual(t, "messages", w.heard(), []string{"one\ntwo\nthree"})
	})
}

// The client cut a text at the limit of the platform, and sends the rest when it has sent the first piece.
func TestATextThatTheClientHasCutIsOneRun(t *testing.T) {
	inBubble(t, time.Second, func(w *fixture) {
		most := w.platform.Capabilities.MaxUnits
		first := strings.Repeat("x", most-most/16)
		w.platform.SendPrivate(boss, first)
		w.later(2500 * time.Millisecond)
		w.platform.SendPrivate(boss, "rest")
		w.later(1500 * time.Millisecond)
		w.platform.SendPrivate(boss, first[1:])
		w.later(1500 * time.Millisecond)
		wantEqual(t, "messages", w.heard(), []string{first + "\nrest", first[1:]})
	})
}

func TestCommandsDoNotWaitForABurst(t *testing.T) {
	inBubble(t, time.Second, func(w *fixture) {
		w.platform.SendPrivate(boss, "one")
		w.platform.SendPrivate(boss, "two")
		w.platform.SendPrivate(boss, "/status")
		synctest.Wait()
		if got := texts(w.platform.Sent()); !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, "2 messages waiting.") }) {
			t.Errorf("sent %q, want the status", got)
		}
		w.platform.SendPrivate(boss, "/stop")
		w.later(2 * time.Second)
		if got := texts(w.platform.Sent()); !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, "Discarded from the queue: 2 messages.") }) {
			t.Errorf("sent %q, want what was discarded", got)
		}
		wantEqual(t, "messages", w.heard(), nil)
		w.platform.SendPrivate(boss, "three")
		w.platform.SendPrivate(boss, "/queue at once")
		wantEqual(t, "messages, at once", w.heard(), []string{"three", "at once"})
	})
}

func TestAMessageOfABurstIsEditedAndDeleted(t *testing.T) {
	inBubble(t, time.Second, func(w *fixture) {
		change := func(kind chat.EventKind, of chat.Event, text string) {
			w.platform.AddEvent(chat.Event{Kind: kind, Room: of.Room, User: chat.User{ID: boss, Name: "x"}, TargetID: of.Key, Text: text})
		}
		one, two, three := w.platform.SendPrivate(boss, "one"), w.platform.SendPrivate(boss, "tow"), w.platform.SendPrivate(boss, "three")
		change(chat.EventDeleted, one, "")
		change(chat.EventEdited, two, "two")
		change(chat.EventEdited, three, "three!")
		w.later(2 * time.Second)
		wantEqual(t, "messages", w.heard(), []string{"two\nthree!"})
		change(chat.EventDeleted, w.platform.SendPrivate(boss, "alone"), "")
		w.later(2 * time.Second)
		wantEqual(t, "messages", w.heard(), []string{"two\nthree!"})
	})
}

// TestABurstOutlivesAKill kills the server at each write of a burst, with the write lost or applied. No message is lost
// or read twice, and their order stays.
func TestABurstOutlivesAKill(t *testing.T) {
	for _, applied := range []bool{false, true} {
		t.Run(fmt.Sprint("applied=", applied), func(t *testing.T) {
			t.Parallel()
			for n := 1; ; n++ {
				w := newFixture(t)
				w.access.Join = 30 * time.Millisecond
				w.start()
				died := w.faults.arm(n, applied)
				for _, text := range []string{"one", "two", "three"} {
					w.platform.SendPrivate(boss, text)
				}
				w.await("the kill, or the end", func(store.Reader) bool {
					select {
					case <-died:
						return true
					default:
						return w.platform.AllReceived()
					}
				})
				killed := w.faults.isDead()
				w.stop()
				if !killed {
					if n < 4 {
						t.Errorf("%d writes of three messages", n-1)
					}
					return
				}
				w.faults.revive()
				w.start()
				w.platform.SendPrivate(boss, "four")
				w.awaitSettled()
				wantEqual(t, fmt.Sprintf("messages, killed at write %d", n), strings.Join(w.awaitHeard(0), "\n"), "one\ntwo\nthree\nfour")
				w.stop()
			}
		})
	}
}
