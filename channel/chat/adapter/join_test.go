package adapter_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mailroom/channel/chat"
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
func TestTheCutPartsOfATextAreOneRun(t *testing.T) {
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
		if got := texts(w.platform.Sent()); !slices.ContainsFunc(got, func(s string) bool {
			return strings.Contains(s, "2 messages waiting.")
		}) {
			t.Errorf("sent %q, want the status", got)
		}
		w.platform.SendPrivate(boss, "/stop")
		w.later(2 * time.Second)
		if got := texts(w.platform.Sent()); !slices.ContainsFunc(got, func(s string) bool {
			return strings.Contains(s, "Discarded from the queue: 2 messages.")
		}) {
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
			w.platform.AddEvent(chat.Event{Kind: kind, Room: of.Room, User: chat.User{ID: boss, Name: "x"}, TargetID: of.Key,
				Text: text})
		}
		one, two, three := w.platform.SendPrivate(boss, "one"), w.platform.SendPrivate(boss, "tow"),
			w.platform.SendPrivate(boss, "three")
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

// said adds a private message that the platform says was written at a time.
func (w *fixture) said(at time.Time, text string) {
	w.platform.AddEvent(chat.Event{
		Kind: chat.EventMessage, Room: PrivateRoom(boss), User: chat.User{ID: boss, Name: "x"}, Text: text, Written: at,
	})
}

// What was written during an outage is read at once afterwards.
func TestOnlyMessagesWrittenTogetherAreOneRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.poll, w.access.Join = time.Minute, time.Second
		begin := time.Now()
		w.said(begin, "one")
		w.said(begin.Add(time.Second), "two")
		w.said(begin.Add(3*time.Minute), "three")
		w.said(begin.Add(3*time.Minute), "four")
		file := w.platform.File("a.txt", released().open)
		for i, text := range []string{"five", "six", "seven"} {
			w.platform.AddEvent(chat.Event{
				Kind: chat.EventMessage, Room: PrivateRoom(boss), User: chat.User{ID: boss, Name: "x"}, Text: text,
				Files: []chat.File{file}, Written: begin.Add(time.Duration(6+i/2*3) * time.Minute),
			})
		}
		w.later(time.Hour)
		w.start()
		w.later(30 * time.Second)
		const content = "\nFile a.txt:\ncontent"
		wantEqual(t, "messages", w.heard(), []string{"one\ntwo", "three\nfour", "five" + content + "\nsix" + content,
			"seven" + content})
		w.stop()
	})
}

// A platform may lie about times, or have another clock. What is impossible says nothing.
func TestAWrongTimeNeitherHoldsNorSeparatesABurst(t *testing.T) {
	inBubble(t, time.Second, func(w *fixture) {
		w.said(time.Now().Add(1000*time.Hour), "one")
		w.said(time.Time{}, "two")
		w.said(time.Unix(0, 0), "three")
		w.said(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), "four")
		w.later(1100 * time.Millisecond)
		wantEqual(t, "messages", w.heard(), []string{"one\ntwo\nthree\nfour"})
		w.later(2 * time.Hour) // virtual time begins with the year 2000
		w.said(time.Now().Add(-time.Hour), "an hour ago")
		w.said(time.Now(), "now")
		w.later(1100 * time.Millisecond)
		wantEqual(t, "messages", w.heard()[1:], []string{"an hour ago", "now"})
	})
}

// The file belongs to the text before it, however long its download takes. A download that takes too long does not hold
// the text.
func TestADownloadHoldsTheBurst(t *testing.T) {
	for _, x := range []struct {
		takes time.Duration
		want  []string
	}{
		{7 * time.Second, []string{"look\nFile a.txt:\ncontent"}},
		{15 * time.Second, []string{"look", "File a.txt:\ncontent"}},
	} {
		t.Run(x.takes.String(), func(t *testing.T) {
			inBubble(t, time.Second, func(w *fixture) {
				slow := newSlowFile()
				w.platform.SendPrivate(boss, "look")
				w.later(500 * time.Millisecond)
				w.picture(PrivateRoom(boss), boss, "", "", "a.txt", slow)
				w.later(x.takes)
				slow.release()
				w.later(2 * time.Second)
				wantEqual(t, "messages", w.heard(), x.want)
			})
		})
	}
}

// A file of another user in the same conversation does not hold it.
func TestADownloadOfAnotherUserHoldsNothing(t *testing.T) {
	inBubble(t, time.Second, func(w *fixture) {
		slow, at := newSlowFile(), GroupRoom(room)
		w.picture(at, boss, "", "@bot look", "b.txt", released())
		w.later(100 * time.Millisecond)
		w.picture(at, friend, "", "@bot this", "a.txt", slow)
		w.later(2 * time.Second)
		wantEqual(t, "number of messages", len(w.heard()), 1)
		slow.release()
	})
}

// TestABurstOutlivesAKill kills the server at each write of a burst, with the write lost or applied, and starts it half
// a minute later. No message is lost or read twice, their order stays, and they are one run.
func TestABurstOutlivesAKill(t *testing.T) {
	for _, applied := range []bool{false, true} {
		t.Run(fmt.Sprint("applied=", applied), func(t *testing.T) {
			for n, killed := 1, true; killed; n++ {
				inBubble(t, time.Second, func(w *fixture) {
					w.faults.arm(n, applied)
					for _, text := range []string{"one", "two", "three"} {
						w.platform.SendPrivate(boss, text)
					}
					synctest.Wait()
					if killed = w.faults.isDead(); !killed && n < 4 {
						t.Errorf("%d writes of three messages", n-1)
					}
					w.stop()
					w.later(30 * time.Second)
					w.faults.revive()
					w.start()
					w.later(100 * time.Millisecond)
					w.platform.SendPrivate(boss, "four")
					w.later(5 * time.Second)
					wantEqual(t, fmt.Sprintf("messages, killed at write %d", n), w.heard(), []string{"one\ntwo\nthree\nfour"})
				})
			}
		})
	}
}
