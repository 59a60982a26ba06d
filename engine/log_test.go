package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/entry"
)

// An agent whose runs only pass on texts forgets the tool calls between them. Its log has them.
func TestAnAgentReadsWhatItsEarlierRunsDid(t *testing.T) {
	everywhere(t, func(h *fixture) {
		const notes = 1200 // more than a page over HTTP
		var got []mailroom.Entry
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			in, err := s.Input(ctx)
			if err != nil {
				return err
			}
			if in[0].Text == "work" {
				for from := 0; from < notes; from += 100 {
					var step mailroom.Step
					for n := from; n < from+100; n++ {
						body := json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))
						step.Entries = append(step.Entries, mailroom.AgentEntry{Kind: "x.note", Body: body})
					}
					if err := s.Append(ctx, step); err != nil {
						return err
					}
				}
				return nil
			}
			if got, err = s.Log(ctx, mailroom.LogQuery{Kinds: []string{"x.note"}, Limit: notes + 1}); err != nil {
				return err
			}
			last, err := s.Log(ctx, mailroom.LogQuery{Kinds: []string{"x.note"}, Before: got[notes-1].Seq, Limit: 2})
			if diff := cmp.Diff(got[notes-3:notes-1], last); err == nil && diff != "" {
				h.t.Errorf("the last two before the last (-want +got):\n%s", diff)
			}
			return err
		})
		h.send("t", "work")
		h.wait(time.Minute)
		out := h.send("t", "remember")
		h.wait(time.Minute)
		h.status(out.Run, mailroom.StatusCompleted)
		if len(got) != notes {
			h.t.Fatalf("got %d notes, want %d", len(got), notes)
		}
		for i, e := range got {
			if want := fmt.Sprintf(`{"n":%d}`, i); string(e.Body) != want || i > 0 && e.Seq <= got[i-1].Seq {
				h.t.Fatalf("entry %d is %s at %d, want %s", i, e.Body, e.Seq, want)
			}
		}
	})
}

// A memo has one entry. A call that its process does not survive is made again, without a question.
func TestAMemoIsCalledUntilItsValueIsRecorded(t *testing.T) {
	everywhere(t, func(h *fixture) {
		e := mailroom.Effect{Name: "pay", Memo: true}
		out := h.crashed(e)
		calls := 0
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			for range 2 {
				v, err := s.Do(ctx, e, func(context.Context, string) (json.RawMessage, error) {
					calls++
					if calls == 1 {
						return nil, fmt.Errorf("overloaded")
					}
					return json.RawMessage(`"value"`), nil
				})
				if err != nil {
					return err
				}
				if string(v) != `"value"` {
					h.t.Errorf("got %s, want the value", v)
				}
			}
			return nil
		})
		h.wait(time.Minute)
		h.status(out.Run, mailroom.StatusCompleted)
		h.wantEffects("t", "settled pay")
		if calls != 2 {
			h.t.Errorf("%d calls, want one that fails and one with the value", calls)
		}
		if len(h.entries("t", entry.KindTicketOpened)) > 0 {
			h.t.Error("a memo asked about its outcome")
		}
	})
}

func TestAMemoOfInvalidJSONIsNotRecorded(t *testing.T) {
	localOnly(t, func(h *fixture) {
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			_, err := s.Do(ctx, mailroom.Effect{Name: "pay", Memo: true},
				func(context.Context, string) (json.RawMessage, error) { return json.RawMessage(`{`), nil })
			return err
		})
		h.send("t", "pay")
		h.wait(time.Hour)
		h.wantEffects("t")
	})
}

// A message may have other parts than text, or no text at all, also if its worker is elsewhere.
func TestAStepAddsPartsToTheMessage(t *testing.T) {
	everywhere(t, func(h *fixture) {
		file := mailroom.Part{Type: mailroom.PartFile, URI: "https://example.org/a.pdf", Name: "a.pdf"}
		thought := mailroom.Part{Type: mailroom.PartReasoning, Text: "hm"}
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			h.expect(s.Stream(ctx, "Look."))
			used := mailroom.Usage{InputTokens: 10, CacheReadTokens: 4, OutputTokens: 5, ReasoningTokens: 2, Model: "m-1"}
			h.expect(s.Append(ctx, mailroom.Step{Name: "answer", Parts: []mailroom.Part{file, thought}, Usage: used}))
			err := s.Append(ctx, mailroom.Step{NoProgress: true, Parts: []mailroom.Part{file}})
			if mailroom.CodeOf(err) != mailroom.CodeInvalid {
				h.t.Errorf("parts of a record: %v", err)
			}
			h.expect(s.Append(ctx, mailroom.Step{Parts: []mailroom.Part{file}, Usage: used}))
			return s.Stream(ctx, "Done.")
		})
		out := h.send("t", "go")
		h.wait(time.Minute)
		r := h.status(out.Run, mailroom.StatusCompleted)
		want := mailroom.Usage{InputTokens: 20, CacheReadTokens: 8, OutputTokens: 10, ReasoningTokens: 4, Model: "m-1"}
		if r.Usage != want {
			h.t.Errorf("got usage %+v, want %+v", r.Usage, want)
		}
		var got [][]mailroom.Part
		for _, e := range h.entries("t", entry.KindMessage)[1:] {
			got = append(got, body[mailroom.Message](h, e).Parts)
		}
		parts := [][]mailroom.Part{{thought, {Type: mailroom.PartText, Text: "Look."}, file}, {file}, mailroom.Text("Done.")}
		if diff := cmp.Diff(parts, got); diff != "" {
			h.t.Errorf("messages (-want +got):\n%s", diff)
		}
		step := body[entry.StepNamed](h, h.entries("t", entry.KindStep)[0])
		if step.Usage.Model != "m-1" || step.Usage.CacheReadTokens != 4 {
			h.t.Errorf("the step says %+v", step.Usage)
		}
	})
}
