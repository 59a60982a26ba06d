package ledger_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"mailroom"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/thread"
)

// concurrently calls f n times concurrently.
func concurrently(n int, f func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}

func TestASubmitWithAnEmptyThreadIDCreatesAThread(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	seen := map[string]bool{}
	for _, blank := range []string{"", "  ", "\n"} {
		out := d.submit(text(blank, "hello"))
		if len(out.Thread) != 36 || seen[out.Thread] {
			t.Errorf("%q: got thread %q, want a new UUID", blank, out.Thread)
		}
		seen[out.Thread] = true
	}
}

func TestAnEmptyThreadIDMakesOneThreadPerOwnerAndKey(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	keyed := func(owner, key string) store.Submitted {
		in := text("", "hello")
		in.Owner, in.Key = owner, key
		return d.submit(in)
	}
	first, again, other, bobs := keyed("ann", "k"), keyed("ann", "k"), keyed("ann", "l"), keyed("bob", "k")
	wantEqual(t, "again", []any{again.Thread, again.Run, again.Disposition},
		[]any{first.Thread, first.Run, store.DispositionDuplicate})
	if other.Thread == first.Thread || bobs.Thread == first.Thread {
		t.Error("another key or owner got the same thread")
	}
}

func TestAThreadIDIsTrimmed(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	wantEqual(t, "thread", d.submit(text("  a b ", "hello")).Thread, "a b")
}

func TestARefusedSubmitWritesNothing(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.submit(text("t", "hello"))
	before := d.kinds("t")
	reject := mode(mailroom.ModeReject, "t", "hello")
	reject.Key = "k"
	for code, in := range map[mailroom.Code]thread.Submit{
		mailroom.CodeInvalid: text("t", " "),
		mailroom.CodeBusy:    reject,
	} {
		_, err := d.Submit(t.Context(), in)
		wantCode(t, err, code)
	}
	for _, thread := range []string{"a/b", "..", strings.Repeat("x", 201), "\x00"} {
		_, err := d.Submit(t.Context(), text(thread, "hello"))
		wantCode(t, err, mailroom.CodeInvalid)
	}
	_, err := d.Submit(t.Context(), text("new", ""))
	wantCode(t, err, mailroom.CodeInvalid)
	if d.thread("new") != nil {
		t.Error("a refused submit created a thread")
	}
	wantEqual(t, "log", d.kinds("t"), before)
	reject.Mode = mailroom.ModeQueue
	wantEqual(t, "the key of a refused submit", d.submit(reject).Disposition, store.DispositionQueued)
}

func TestTheAgentOfARun(t *testing.T) {
	d := open(t, nil, ledger.Options{DefaultAgent: "house", Version: func(a string) string { return a + "-1" }})
	agent := func(run string) []string { r := d.run(run); return []string{r.Agent, r.AgentVersion} }
	wantEqual(t, "by default", agent(d.submit(text("t", "a")).Run), []string{"house", "house-1"})
	in := text("t", "b")
	in.Agent = "codex"
	wantEqual(t, "asked for", agent(d.submit(in).Run), []string{"codex", "codex-1"})
	wantEqual(t, "the thread's", agent(d.submit(text("t", "c")).Run), []string{"codex", "codex-1"})
	in = text("t", "d")
	in.AgentVersion = "old"
	wantEqual(t, "of a version", agent(d.submit(in).Run), []string{"codex", "old"})
}

func TestTheSameKey64TimesAtOnceIsOneSubmit(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	in := text("t", "hello")
	in.Key = "k"
	outs := make([]store.Submitted, 64)
	concurrently(64, func(i int) {
		var err error
		if outs[i], err = d.Submit(t.Context(), in); err != nil {
			t.Error(err)
		}
	})
	first := 0
	for _, out := range outs {
		if out.Disposition == store.DispositionQueued {
			first++
		}
		wantEqual(t, "answer", []any{out.Message, out.Run, out.Seq, out.Place},
			[]any{outs[0].Message, outs[0].Run, outs[0].Seq, outs[0].Place})
	}
	wantEqual(t, "first ones", first, 1)
	wantEqual(t, "log", d.kinds("t"), "message, run.queued")
}

func TestAKeyOutlivesTheProcess(t *testing.T) {
	s := memory.New()
	d := open(t, s, ledger.Options{})
	in := text("t", "hello")
	in.Key = "k"
	first := d.submit(in)
	if err := d.close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, s, ledger.Options{}).submit(in)
	first.Disposition = store.DispositionDuplicate
	wantEqual(t, "answer", again, first)
}

func Test32ConcurrentSubmitsGet32ConsecutivePlaces(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	places, messages := make([]int64, 32), make([]string, 32)
	concurrently(32, func(i int) {
		out, err := d.Submit(t.Context(), text("t", fmt.Sprint("message ", i)))
		if err != nil {
			t.Error(err)
		}
		places[i], messages[i] = out.Place, out.Message
	})
	slices.Sort(places)
	for i, place := range places {
		wantEqual(t, "place", place, int64(i+1))
	}
	for i, id := range messages {
		wantEqual(t, "message", must(d.Message(t.Context(), "t", id))(t).Text, fmt.Sprint("message ", i))
	}
	wantEqual(t, "entries", len(d.log("t")), 64)
}

func TestTheEntriesOfAPlainRun(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	out := d.submit(text("t", "hello"))
	d.serve("w")
	wantEqual(t, "kinds", d.kinds("t"), "message, run.queued, run.started, message, run.completed")
	for _, e := range d.log("t") {
		wantEqual(t, "run of "+e.Kind, e.Run, out.Run)
	}
}

func TestCommitsArePublishedInOrderBeforeTheResponse(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]int64{}
	d := open(t, nil, ledger.Options{Publish: func(thread string, entries []mailroom.Entry) {
		mu.Lock()
		defer mu.Unlock()
		for _, e := range entries {
			if e.Seq != seen[thread]+1 {
				t.Errorf("thread %s: entry %d published after %d", thread, e.Seq, seen[thread])
			}
			seen[thread] = e.Seq
		}
	}})
	concurrently(64, func(i int) {
		out, err := d.Submit(t.Context(), text(fmt.Sprint("t", i%4), "hello"))
		mu.Lock()
		defer mu.Unlock()
		if err != nil || seen[out.Thread] < out.Seq {
			t.Errorf("Submit returned entry %d, error %v, before it was published", out.Seq, err)
		}
	})
}

func TestAVersionThatItsAgentNeverHadIsRefused(t *testing.T) {
	for name, s := range kindsOfStores(t) {
		t.Run(name, func(t *testing.T) {
			d := open(t, s, ledger.Options{
				Version: func(string) string { return "v3" },
				KnowsVersion: func(agent, version string) bool {
					return agent != "echo" || version == "v3" || version == "dropped"
				},
			})
			kept := store.Definition{Agent: "echo", Version: "v2", Body: json.RawMessage(`{}`)}
			if err := d.KeepDefinitions(d.ctx, []store.Definition{kept}); err != nil {
				t.Fatal(err)
			}
			submit := func(agent, version, key string) error {
				in := text("a", "hello")
				in.Agent, in.AgentVersion, in.Key = agent, version, key
				_, err := d.Submit(d.ctx, in)
				return err
			}
			for _, version := range []string{"v3", "v2", "dropped"} {
				if err := submit("echo", version, version); err != nil {
					t.Errorf("version %s: %v", version, err)
				}
			}
			if err := submit("elsewhere", "any", ""); err != nil {
				t.Errorf("a version of an agent that only others know: %v", err)
			}
			for _, version := range []string{"v1", "V3", "v3 "} {
				err := submit("echo", version, "")
				if mailroom.CodeOf(err) != mailroom.CodeInvalid || !strings.Contains(err.Error(), "the current one is v3") {
					t.Errorf("version %q: got %v", version, err)
				}
			}
			if err := d.DropDefinitions(d.ctx, []store.Definition{kept}); err != nil {
				t.Fatal(err)
			}
			if err := submit("echo", "v2", "v2"); err != nil {
				t.Errorf("a repeat of a submit whose version was dropped: %v", err)
			}
		})
	}
}
