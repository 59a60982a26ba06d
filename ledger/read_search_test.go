package ledger_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/thread"
)

// uninterrupted opens a store of a side, whose connections are not cut.
func uninterrupted(t *testing.T, s *side) store.Store {
	t.Helper()
	rows := must(s.open())(t)
	if cut, ok := rows.(*interrupted); ok {
		rows = cut.Store
	}
	t.Cleanup(func() {
		if err := rows.Close(); err != nil {
			t.Error(err)
		}
	})
	return rows
}

// index indexes all that was committed.
func (d *fixture) index() {
	d.t.Helper()
	for {
		read, err := d.IndexMessages(d.ctx)
		if err != nil {
			d.t.Fatal(err)
		}
		if read == 0 {
			if now := must(d.Search(d.ctx, searchAll(nil, nil)))(d.t); !now.Complete {
				d.t.Error("the index is not complete, want all of the log in it")
			}
			return
		}
	}
}

// search returns the texts of the messages with all words.
func (d *fixture) search(words ...string) (texts []string) {
	d.t.Helper()
	q := searchAll(words, func(m mailroom.Message, _ int64) { texts = append(texts, m.Text) })
	for q.Limit = 2; ; q.Before = q.Next {
		if _, err := d.Search(d.ctx, q); err != nil {
			d.t.Fatal(err)
		}
		if q.Next == 0 {
			return texts
		}
	}
}

func searchAll(words []string, each func(mailroom.Message, int64)) *ledger.SearchQuery {
	return &ledger.SearchQuery{Search: store.Search{Words: words, Limit: 5000}, CanSee: func(*mailroom.Thread) bool {
		return true
	}, Each: each}
}

func (d *fixture) wantTexts(want []string, words ...string) {
	d.t.Helper()
	if got := d.search(words...); !slices.Equal(got, want) {
		d.t.Errorf("%q: found %q, want %q", words, got, want)
	}
}

func TestMessagesAreFoundByTheirWords(t *testing.T) {
	for _, s := range []*side{onMemory(), onFile(t.TempDir()), onPostgres(t)} {
		t.Run(s.name, func(t *testing.T) {
			rows := uninterrupted(t, s)
			d := open(t, rows, ledger.Options{})
			d.register("w")
			d.submit(text("t", "Where does the Northern train stop?"))
			d.submit(text("u", "The train is late"))
			d.serve("w")
			told := text("out:tg:1", "A train is told in a chat") // an alert
			told.Owner = auth.Operator
			d.submit(told)
			other := text("v", "A train for Bob")
			other.Owner = "bob"
			d.submit(other)
			if now, err := d.Search(d.ctx, searchAll(nil, nil)); err != nil || now.Complete || !now.Until.IsZero() {
				t.Errorf("before the index: got %+v, %v", now, err)
			}
			d.index()
			train := []string{"A train for Bob", "re: The train is late", "re: Where does the Northern train stop?",
				"The train is late", "Where does the Northern train stop?"}
			got := d.search("train")
			if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(train))) {
				t.Errorf("got %q", got)
			}
			d.wantTexts([]string{"A train for Bob"}, "train", store.OwnerWord("bob"))
			d.wantTexts([]string{"re: The train is late", "The train is late"}, "late", store.ThreadWord("u"))
			d.wantTexts(nil, "late", "northern")

			// A message has its present text.
			run := d.submit(text("t", "first words"))
			d.index()
			must(d.Edit(d.ctx, "t", run.Message, mailroom.Text("second words")))(t)
			d.wantTexts(nil, "first") // at once
			d.index()
			d.wantTexts(nil, "first")
			must(d.Edit(d.ctx, "t", run.Message, mailroom.Text("third words")))(t)
			d.index()
			d.wantTexts([]string{"third words"}, "words")
			if err := d.Retract(d.ctx, "t", run.Message); err != nil {
				t.Fatal(err)
			}
			d.wantTexts(nil, "words") // at once
			d.index()
			d.wantTexts(nil, "words")

			if err := d.DeleteThread(d.ctx, "t", nil); err != nil {
				t.Fatal(err)
			}
			d.wantTexts(nil, "northern")
			var found []mailroom.Message
			q := searchAll([]string{"late"}, func(m mailroom.Message, _ int64) { found = append(found, m) })
			q.Limit = 1
			now, err := d.Search(d.ctx, q)
			if err != nil || len(found) != 1 || found[0].Thread != "u" || found[0].State != mailroom.MessageDone ||
				!now.Complete || time.Since(now.Until) > time.Minute {
				t.Errorf("got %+v, %+v, %v", found, now, err)
			}
		})
	}
}

// TestTwoFollowersIndexEachMessageOnce: two servers may believe that the index is theirs for a moment.
func TestTwoFollowersIndexEachMessageOnce(t *testing.T) {
	for _, s := range []*side{onMemory(), onFile(t.TempDir()), onPostgres(t)} {
		t.Run(s.name, func(t *testing.T) {
			rows := uninterrupted(t, s)
			d := open(t, rows, ledger.Options{MaxQueued: 2000})
			for i := range 40 {
				batch := text("t", "")
				batch.Messages = nil
				for range 30 {
					batch.Messages = append(batch.Messages, thread.NewMessage{Parts: mailroom.Text(strings.Repeat("word ", 1+i%3))})
				}
				d.submit(batch)
			}
			ended := make(chan error)
			for range 2 {
				go func() {
					for {
						read, err := d.IndexMessages(d.ctx)
						if read == 0 && err == nil {
							ended <- nil
							return
						}
						if err != nil && mailroom.CodeOf(err) == mailroom.CodeInvalid {
							ended <- err
							return
						}
					}
				}()
			}
			for range 2 {
				if err := <-ended; err != nil {
					t.Fatal(err)
				}
			}
			found := 0
			q := searchAll([]string{"word"}, func(mailroom.Message, int64) { found++ })
			if _, err := d.Search(d.ctx, q); err != nil || found != 1200 || q.State.Last != 1200 {
				t.Errorf("found %d messages in %d rows, %v; want 1,200", found, q.State.Last, err)
			}
			q.CanSee = func(*mailroom.Thread) bool { return false }
			if _, err := d.Search(d.ctx, q); err != nil || found != 1200 {
				t.Errorf("found %d messages that the caller cannot see, %v", found-1200, err)
			}
			q.CanSee, q.Budget = func(*mailroom.Thread) bool { return true }, 1
			pages := 0
			for found = 0; pages == 0 || q.Next > 0; q.Before = q.Next {
				if _, err := d.Search(d.ctx, q); err != nil {
					t.Fatal(err)
				}
				pages++
			}
			if found != 1200 || pages < 2 {
				t.Errorf("found %d messages on %d pages of a small budget, want 1,200 on several", found, pages)
			}
		})
	}
}

// The index has the first 40 bytes of a word.
func TestALongWordIsFoundWholeOnly(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	long := strings.Repeat("abcdefghij", 6)
	d.submit(text("t", "one "+long+"x"))
	d.submit(text("t", "two "+strings.ToUpper(long)+"y, "+long[:50]))
	d.index()
	for asked, want := range map[string][]string{
		"one": {"one"}, long: nil, long + "x": {"one"}, long + "y": {"two"}, long[:50] + " " + long + "y": {"two"},
		long[:40]: nil,
	} {
		var got []string
		q := searchAll(store.Words(asked), func(m mailroom.Message, _ int64) { got = append(got, m.Text[:3]) })
		q.Long = store.LongWords(asked)
		must(d.Search(d.ctx, q))(t)
		wantEqual(t, "found by "+asked, got, want)
	}
}
