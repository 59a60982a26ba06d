package storetest

import (
	"bytes"
	"testing"

	"mailroom"
	"mailroom/store"
)

func blob(thread, agent, name, upload string, size int64) store.Blob {
	return store.Blob{Thread: thread, Agent: agent, Name: name, Upload: upload, Size: size, Digest: "digest of " + upload,
		WrittenAt: base()}
}

func piece(thread, upload string, number int, body string) store.BlobPiece {
	return store.BlobPiece{Thread: thread, Upload: upload, Number: number, Body: []byte(body)}
}

// blobsOf answers a query for blobs of a thread.
func blobsOf(t *testing.T, r store.Reader, thread string, q store.BlobQuery) store.BlobQuery {
	t.Helper()
	keys, err := r.Keys(store.KeyQuery{Thread: thread, Blobs: &q})
	must(t, err)
	if len(keys) > 0 {
		t.Errorf("a query for blobs returns %d keys", len(keys))
	}
	return q
}

func blobCases() []testCase {
	threads := func() []*mailroom.Thread { return []*mailroom.Thread{thread("t"), thread("u")} }
	a, b, c := blob("t", "a", "x/1", "1", 3), blob("t", "a", "x/2", "2", 0), blob("t", "a", "y", "3", 1)
	d, e := blob("t", "ä", "x/1", "4", 1), blob("u", "a", "x/1", "1", 2)
	all := func() *store.Changes {
		return &store.Changes{Threads: threads(), Blobs: []store.Blob{d, c, a, e, b}}
	}
	return []testCase{
		{"are selected by agent, names and prefix, in the order of bytes", func(t *testing.T, s *handle) {
			s.write(all())
			ref := func(agent, name string) store.BlobRef { return store.BlobRef{Agent: agent, Name: name} }
			queries := []struct {
				what   string
				thread string
				q      store.BlobQuery
				want   []store.Blob
			}{
				{"all", "t", store.BlobQuery{}, []store.Blob{a, b, c, d}},
				{"from the third on", "t", store.BlobQuery{After: ref("a", "x/2")}, []store.Blob{c, d}},
				{"of the next agent", "t", store.BlobQuery{After: ref("a", "y"), Limit: 2}, []store.Blob{d}},
				{"of another thread", "u", store.BlobQuery{}, []store.Blob{e}},
				{"of no thread", "none", store.BlobQuery{}, nil},
				{"of an agent", "t", store.BlobQuery{Agent: "a"}, []store.Blob{a, b, c}},
				{"of an agent, limited", "t", store.BlobQuery{Agent: "a", Limit: 2}, []store.Blob{a, b}},
				{"of an agent, the rest", "t", store.BlobQuery{Agent: "a", After: ref("", "x/2"), Limit: 2}, []store.Blob{c}},
				{"with a prefix", "t", store.BlobQuery{Agent: "a", Prefix: "x/"}, []store.Blob{a, b}},
				{"with a prefix, the rest", "t", store.BlobQuery{Agent: "a", Prefix: "x/", After: ref("", "x/1")}, []store.Blob{b}},
				{"with a prefix behind all", "t", store.BlobQuery{Agent: "a", Prefix: "\U0010FFFF"}, nil},
				{"by name", "t", store.BlobQuery{Agent: "a", Names: []string{"y", "none", "x/1"}}, []store.Blob{a, c}},
				{"of an agent without any", "t", store.BlobQuery{Agent: "none"}, nil},
			}
			ask := func(r store.Reader) {
				for _, q := range queries {
					wantSame(t, q.what, blobsOf(t, r, q.thread, q.q).Found, q.want)
				}
			}
			s.view(ask)
			s.update(func(tx store.Tx) { ask(tx) })
		}},
		{"are replaced and dropped by thread, agent and name", func(t *testing.T, s *handle) {
			s.write(all())
			newer := blob("t", "a", "x/1", "9", 7)
			newer.WrittenAt = after(5)
			drops := []store.BlobRef{{Thread: "t", Agent: "a", Name: "x/2"}, {Thread: "t", Agent: "ä", Name: "y"},
				{Thread: "none", Agent: "a", Name: "y"}}
			s.write(&store.Changes{Blobs: []store.Blob{newer}, DropBlobs: drops})
			s.view(func(r store.Reader) {
				wantSame(t, "after a drop", blobsOf(t, r, "t", store.BlobQuery{}).Found, []store.Blob{newer, c, d})
				wantSame(t, "of the other thread", blobsOf(t, r, "u", store.BlobQuery{}).Found, []store.Blob{e})
			})
		}},
	}
}

// pieceCases are the cases of pieces, alone and with blobs.
func pieceCases() []testCase {
	threads := func() []*mailroom.Thread { return []*mailroom.Thread{thread("t"), thread("u")} }
	a, b, c := blob("t", "a", "x/1", "1", 3), blob("t", "a", "x/2", "2", 0), blob("t", "a", "y", "3", 1)
	d, e := blob("t", "ä", "x/1", "4", 1), blob("u", "a", "x/1", "1", 2)
	all := func() *store.Changes {
		return &store.Changes{Threads: threads(), Blobs: []store.Blob{d, c, a, e, b}}
	}
	return []testCase{
		{"have pieces by upload and number", func(t *testing.T, s *handle) {
			large := bytes.Repeat([]byte{0, 0xff, 7, '\n'}, store.BlobPieceBytes/4)
			s.write(&store.Changes{Threads: threads(), BlobPieces: []store.BlobPiece{
				{Thread: "t", Upload: "1", Number: 0, Body: large}, piece("u", "1", 0, "other")}},
				&store.Changes{BlobPieces: []store.BlobPiece{piece("t", "1", 1, "abc"), piece("t", "2", 0, "d")}})
			at := func(r store.Reader, thread, upload string, number int) []byte {
				return blobsOf(t, r, thread, store.BlobQuery{Piece: &store.BlobPiece{Upload: upload, Number: number}}).Body
			}
			sizes := func(r store.Reader, thread string) []store.UploadSize {
				return blobsOf(t, r, thread, store.BlobQuery{Sizes: true}).Uploads
			}
			s.view(func(r store.Reader) {
				if got := at(r, "t", "1", 0); !bytes.Equal(got, large) {
					t.Errorf("a piece of all bytes: got %d bytes, want %d", len(got), len(large))
				}
				wantSame(t, "the next piece", string(at(r, "t", "1", 1)), "abc")
				wantSame(t, "of the other thread", string(at(r, "u", "1", 0)), "other")
				if got := at(r, "t", "1", 2); got != nil {
					t.Errorf("a piece that does not exist: got %q, want nil", got)
				}
				wantSame(t, "sizes", sizes(r, "t"), []store.UploadSize{{Upload: "1", Pieces: 2, Bytes: int64(len(large)) + 3},
					{Upload: "2", Pieces: 1, Bytes: 1}})
				wantSame(t, "sizes of no thread", sizes(r, "none"), []store.UploadSize(nil))
			})
			s.write(&store.Changes{DropUploads: []store.UploadRef{{Thread: "t", Upload: "1"}, {Thread: "none", Upload: "2"}}})
			s.view(func(r store.Reader) {
				wantSame(t, "sizes after a drop", sizes(r, "t"), []store.UploadSize{{Upload: "2", Pieces: 1, Bytes: 1}})
				wantSame(t, "of the other thread", string(at(r, "u", "1", 0)), "other")
			})
		}},
		{"go with their thread", func(t *testing.T, s *handle) {
			s.write(all(), &store.Changes{BlobPieces: []store.BlobPiece{piece("t", "1", 0, "abc"), piece("u", "1", 0, "de")}},
				&store.Changes{DropThreads: []string{"t"}}, &store.Changes{Threads: threads()[:1]})
			s.view(func(r store.Reader) {
				wantSame(t, "blobs of a new thread", blobsOf(t, r, "t", store.BlobQuery{}).Found, []store.Blob(nil))
				wantSame(t, "pieces of a new thread", blobsOf(t, r, "t", store.BlobQuery{Sizes: true}).Uploads,
					[]store.UploadSize(nil))
				wantSame(t, "blobs of the other thread", blobsOf(t, r, "u", store.BlobQuery{}).Found, []store.Blob{e})
				wantSame(t, "pieces of the other thread", blobsOf(t, r, "u", store.BlobQuery{Sizes: true}).Uploads,
					[]store.UploadSize{{Upload: "1", Pieces: 1, Bytes: 2}})
			})
		}},
		{"stay when entries are dropped", func(t *testing.T, s *handle) {
			s.write(all(), &store.Changes{BlobPieces: []store.BlobPiece{piece("t", "1", 0, "abc")}},
				&store.Changes{DropEntries: []store.Prefix{{Thread: "t", Seq: 1 << 40}}})
			s.view(func(r store.Reader) {
				wantSame(t, "blobs", blobsOf(t, r, "t", store.BlobQuery{Agent: "a"}).Found, []store.Blob{a, b, c})
			})
		}},
		{"belong to an existing thread", func(t *testing.T, s *handle) {
			for _, c := range []*store.Changes{
				{Blobs: []store.Blob{blob("none", "a", "x", "1", 0)}}, {BlobPieces: []store.BlobPiece{piece("none", "1", 0, "x")}},
			} {
				wantCode(t, s.Update(t.Context(), func(tx store.Tx) error { return tx.Write(c) }), mailroom.CodeInternal)
			}
		}},
	}
}
