package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/store"
)

// large is content of some pieces, different for each seed.
func large(seed byte) []byte { return bytes.Repeat([]byte{seed, 0, 0xff, '\n'}, 200_000) }

// Each agent keeps what it learned in a thread, also what is larger than a checkpoint.
func TestAnAgentFindsTheBlobsOfItsEarlierRuns(t *testing.T) {
	everywhere(t, func(h *fixture) {
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			in, err := s.Input(ctx)
			if err != nil {
				return err
			}
			b := s.Blobs()
			if in[0].Text == "learn" {
				h.expect(s.Stream(ctx, "I "))
				h.expect(b.Put(ctx, "notes/ü?&/1", large(1)))
				h.expect(b.Put(ctx, "notes/2", []byte("old")))
				h.expect(b.Put(ctx, "notes/2", nil))
				h.expect(b.Put(ctx, "gone", []byte("x")))
				h.expect(b.Delete(ctx, "gone"))
				h.expect(b.Delete(ctx, "never"))
				return s.Stream(ctx, "see")
			}
			for name, want := range map[string][]byte{"notes/ü?&/1": large(1), "notes/2": {}, "gone": nil} {
				got, err := b.Get(ctx, name)
				if h.expect(err); !bytes.Equal(got, want) || (got == nil) != (want == nil) {
					h.t.Errorf("blob %q: got %d bytes, nil %t, want %d", name, len(got), got == nil, len(want))
				}
			}
			var list []string
			for _, q := range [][2]string{{"", ""}, {"notes/", "notes/2"}, {"x", ""}} {
				found, err := b.List(ctx, q[0], q[1])
				h.expect(err)
				for _, one := range found {
					list = append(list, fmt.Sprintf("%s:%d:%s", one.Name, one.Size, one.Digest[:4]))
				}
			}
			if got := strings.Join(list, " "); got != "notes/2:0:e3b0 notes/ü?&/1:800000:9c34 notes/ü?&/1:800000:9c34" {
				h.t.Errorf("lists: got %s", got)
			}
			return nil
		})
		first := h.send("t", "learn")
		h.wait(time.Minute)
		if r := h.run(first.Run); r.Reply == nil || *r.Reply != "I see" {
			h.t.Errorf("the reply around the blobs: got %v", r.Reply)
		}
		out := h.send("t", "remember")
		h.wait(time.Minute)
		h.status(out.Run, mailroom.StatusCompleted)
	})
}

// The blob and the checkpoint that names it are written together, or not at all.
func TestAStepWritesItsBlobsWithItsCheckpoint(t *testing.T) {
	everywhere(t, func(h *fixture) {
		attempts := 0
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			attempts++
			if attempts > 1 {
				got, err := s.Blobs().Get(ctx, "state")
				if h.expect(err); string(got) != "one" || string(s.Run().Checkpoint) != `{"at":1}` {
					h.t.Errorf("attempt 2 finds %q at %s", got, s.Run().Checkpoint)
				}
				return nil
			}
			blob := map[string][]byte{"state": []byte("one"), "other": nil}
			h.expect(s.Append(ctx, mailroom.Step{Checkpoint: json.RawMessage(`{"at":1}`), Blobs: blob}))
			bad := mailroom.Step{Checkpoint: json.RawMessage(`{`), Blobs: map[string][]byte{"state": []byte("two")}}
			if err := s.Append(ctx, bad); mailroom.CodeOf(err) != mailroom.CodeInvalid {
				h.t.Errorf("a step with a bad checkpoint: %v", err)
			}
			return fmt.Errorf("the attempt fails")
		})
		out := h.send("t", "work")
		h.wait(time.Minute)
		h.status(out.Run, mailroom.StatusCompleted)
	})
}

func TestABlobOfABadNameOrSizeIsRefused(t *testing.T) {
	everywhere(t, func(h *fixture) {
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			b := s.Blobs()
			for _, name := range []string{"", "a\x00", "\xff", strings.Repeat("x", mailroom.MaxBlobName+1)} {
				_, read := b.Get(ctx, name)
				for what, err := range map[string]error{"put": b.Put(ctx, name, []byte("x")), "delete": b.Delete(ctx, name),
					"get": read} {
					if mailroom.CodeOf(err) != mailroom.CodeInvalid {
						h.t.Errorf("%s of %q: %v", what, name, err)
					}
				}
			}
			if err := b.Put(ctx, "x", make([]byte, mailroom.MaxBlob+1)); mailroom.CodeOf(err) != mailroom.CodeTooLarge {
				h.t.Errorf("a blob that is too large: %v", err)
			}
			h.expect(b.Put(ctx, "x", make([]byte, mailroom.MaxBlob)))
			got, err := b.Get(ctx, "x")
			if h.expect(err); len(got) != mailroom.MaxBlob {
				h.t.Errorf("the largest blob has %d bytes", len(got))
			}
			return nil
		})
		out := h.send("t", "work")
		h.wait(time.Minute)
		h.status(out.Run, mailroom.StatusCompleted)
	})
}

func TestBlobsOfAnEndedSessionOrOfAnEngineWithoutThemAreRefused(t *testing.T) {
	everywhere(t, func(h *fixture) {
		var ended mailroom.Session
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			ended = s
			return nil
		})
		h.send("t", "work")
		h.wait(time.Minute)
		_, read := ended.Blobs().Get(h.t.Context(), "x")
		for what, err := range map[string]error{"put": ended.Blobs().Put(h.t.Context(), "x", []byte("x")), "get": read} {
			if mailroom.CodeOf(err) != mailroom.CodeLeaseLost {
				h.t.Errorf("%s in an ended session: %v", what, err)
			}
		}
	})
	localOnly(t, func(h *fixture) {
		p := h.newProcess()
		h.others = append(h.others, p)
		p.engines = append(p.engines, p.begin(p.ledger.Workers(), p.bus, serving(
			func(ctx context.Context, s mailroom.Session) error {
				if err := s.Blobs().Put(ctx, "x", []byte("x")); mailroom.CodeOf(err) != mailroom.CodeInvalid {
					h.t.Errorf("put without blobs: %v", err)
				}
				return nil
			})))
		out := h.send("t", "work")
		h.wait(time.Minute)
		h.status(out.Run, mailroom.StatusCompleted)
	})
}

// The answer to an upload is lost, and then the answer to the step that writes it.
func TestABlobWhoseAnswersAreLostIsWrittenOnce(t *testing.T) {
	remoteOnly(t, func(h *fixture) {
		w := h.serve(func(ctx context.Context, s mailroom.Session) error {
			h.expect(s.Blobs().Put(ctx, "x", large(1)))
			got, err := s.Blobs().Get(ctx, "x")
			if h.expect(err); !bytes.Equal(got, large(1)) {
				h.t.Errorf("got %d bytes, want %d", len(got), len(large(1)))
			}
			return nil
		})
		lost := map[string]bool{}
		h.line.onWrite(func(c *store.Changes) error {
			for what, n := range map[string]int{"a piece": len(c.BlobPieces), "the step": len(c.Blobs)} {
				if n > 0 && !lost[what] {
					lost[what] = true
					w.conn.sever()
					time.AfterFunc(time.Second, w.conn.mend)
				}
			}
			return nil
		}, nil)
		out := h.send("t", "work")
		h.wait(time.Minute)
		if r := h.status(out.Run, mailroom.StatusCompleted); r.Attempt != 1 || r.Step != 1 || len(lost) != 2 {
			h.t.Errorf("attempt %d, %d steps, lost %v", r.Attempt, r.Step, lost)
		}
	})
}
