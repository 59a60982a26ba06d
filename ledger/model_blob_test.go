package ledger_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"mailroom"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/thread"
)

// threadBlobs are the blobs of a thread as a store has them.
type threadBlobs struct {
	Found   []store.Blob
	Uploads []store.UploadSize
}

func readBlobs(r store.Reader, thread string) (threadBlobs, error) {
	rows, sizes := store.BlobQuery{}, store.BlobQuery{Sizes: true}
	for _, q := range []*store.BlobQuery{&rows, &sizes} {
		if _, err := r.Keys(store.KeyQuery{Thread: thread, Blobs: q}); err != nil {
			return threadBlobs{}, err
		}
	}
	return threadBlobs{rows.Found, sizes.Uploads}, nil
}

// upload adds the next piece to an upload of a live claim. One in four has a whole piece before the last one.
func (m *model) upload(t *rapid.T) {
	c := pick(t, m.liveClaims(), "claim")
	p := &thread.Piece{Claim: c, Upload: thread.UploadID(c, m.name("u"))}
	open := slices.DeleteFunc(slices.Clone(m.uploadsOf(c)), func(u mailroom.Blob) bool { return u.Digest != "" })
	var before []byte
	if len(open) > 0 && chance(t, 80, "the last piece") {
		p.Upload, p.Number, before = open[0].Name, 1, m.whole()
	}
	switch {
	case p.Number == 0 && chance(t, 25, "a whole piece"):
		p.Body = m.whole()
	default:
		p.Body = []byte(m.name("content "))
		if chance(t, 40, "content as before") {
			p.Body = []byte("the same")
		}
		p.Digest = digestOf(append(before, p.Body...))
	}
	if chance(t, 5, "out of order") {
		p.Number++
	}
	m.do(t, "upload", func(l *ledger.Ledger) error { return l.Workers().AddPiece(m.ctx, p) })
}

// keep writes, replaces or deletes a blob of a live claim, whose content is uploaded just before.
func (m *model) keep(t *rapid.T) {
	c := pick(t, m.liveClaims(), "claim")
	a := thread.StepCommit{Claim: c, Number: m.run(c.Run).Step + 1, Step: mailroom.Step{NoProgress: true}}
	b := thread.BlobChange{Name: "dir0/ü1"}
	if !chance(t, 20, "deleted") {
		p := &thread.Piece{Claim: c, Upload: thread.UploadID(c, m.name("u")), Body: []byte("the same")}
		if chance(t, 50, "other content") {
			p.Body = []byte(m.name("content "))
		}
		p.Digest = digestOf(p.Body)
		if m.do(t, "upload", func(l *ledger.Ledger) error { return l.Workers().AddPiece(m.ctx, p) }) == nil {
			b.Upload = p.Upload
		}
	}
	a.Blobs = []thread.BlobChange{b}
	m.write(t, "append", a)
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// whole is the first piece of each upload of two.
func (m *model) whole() []byte {
	return bytes.Repeat([]byte("0123456789abcdef"), store.BlobPieceBytes/16)
}

// uploadsOf returns the uploads of a claim.
func (m *model) uploadsOf(c mailroom.Claim) []mailroom.Blob {
	if row := m.after.Threads[c.Thread]; row != nil {
		return row.Uploads
	}
	return nil
}

func (m *model) dropUpload(t *rapid.T) {
	c := pick(t, m.liveClaims(), "claim")
	id := "none"
	if all := m.uploadsOf(c); len(all) > 0 {
		id = one(t, all, "upload").Name
	}
	m.do(t, "drop upload", func(l *ledger.Ledger) error { return l.Workers().DropUpload(m.ctx, c, id) })
}

// drawBlobs draws changes of blobs for a step. Some name an upload that is not complete, or of another claim.
func (m *model) drawBlobs(t *rapid.T, c mailroom.Claim) (changes []thread.BlobChange) {
	uploads := slices.Clone(m.uploadsOf(c))
	for i := range number(t, 1, 3, "blobs") {
		b := thread.BlobChange{Name: fmt.Sprint("dir", i, "/ü", number(t, 1, 2, "blob"))}
		switch {
		case len(uploads) > 0 && chance(t, 80, "written"):
			b.Upload, uploads = uploads[0].Name, uploads[1:]
		case chance(t, 10, "of an upload that is gone"):
			b.Upload = thread.UploadID(c, "gone")
		}
		changes = append(changes, b)
	}
	return changes
}

// recordBlobs records the blobs of a step that was acknowledged.
func (m *model) recordBlobs(a thread.StepCommit) {
	for _, b := range a.Blobs {
		ref := store.BlobRef{Thread: a.Thread, Agent: m.run(a.Run).Agent, Name: b.Name}
		old, there := m.blobs[ref]
		if b.Upload == "" {
			if there {
				m.coverage["blob deleted"]++
			}
			delete(m.blobs, ref)
			continue
		}
		for _, u := range m.before.Threads[a.Thread].Uploads {
			if u.Name != b.Upload {
				continue
			}
			switch m.blobs[ref] = u.Digest; {
			case !there:
				m.coverage["blob written"]++
			case old == u.Digest:
				m.coverage["blob repeated"]++
			default:
				m.coverage["blob replaced"]++
			}
		}
	}
}

// checkBlobs checks that the store has the blobs of all acknowledged steps and no others, and uploads of claims only.
func (m *model) checkBlobs(t *rapid.T) {
	stored := map[store.BlobRef]string{}
	for id, rows := range m.after.Blobs {
		for _, b := range rows.Found {
			stored[b.Ref()] = b.Digest
		}
		if row := m.after.Threads[id]; len(row.Uploads) > 0 && row.Worker == "" {
			t.Fatalf("thread %s has %d uploads and no claim", id, len(row.Uploads))
		}
	}
	maps.DeleteFunc(m.blobs, func(ref store.BlobRef, _ string) bool {
		is, was := m.after.Threads[ref.Thread], m.before.Threads[ref.Thread]
		return is == nil || was != nil && is.Key != was.Key // deleted
	})
	if !maps.Equal(stored, m.blobs) {
		t.Fatalf("blobs: stored\n%v\nacknowledged\n%v", stored, m.blobs)
	}
	for _, row := range m.after.Threads {
		for _, u := range row.Uploads {
			if row.Current == "" || !strings.HasPrefix(u.Name, row.Current+":") {
				t.Fatalf("thread %s has upload %s, which belongs to another run", row.ID, u.Name)
			}
		}
	}
}

// readNamed reads the submit keys and the blobs of a thread.
func (c contents) readNamed(r store.Reader, thread string) error {
	keys, err := r.Keys(store.KeyQuery{Thread: thread, Keys: keyNames()})
	for _, k := range keys {
		c.Keys[thread+" "+k.Key] = k
	}
	if err == nil {
		c.Blobs[thread], err = readBlobs(r, thread)
	}
	return err
}
