package doctor

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"

	"mailroom"
	"mailroom/store"
)

// blobPage is how many blobs one query returns.
const blobPage = 1000

// blobs compares the blobs of a thread with their pieces, and both with what the thread's row counts.
func (p *checker) blobs() error {
	counts, pieces := map[string]int64{}, map[string]int64{} // by agent; by upload
	whole := map[string]store.Blob{}                         // by upload
	for q := (store.BlobQuery{Limit: blobPage}); ; {
		if _, err := p.r.Keys(store.KeyQuery{Thread: p.t.ID, Blobs: &q}); err != nil {
			return err
		}
		for i := range q.Found {
			b := &q.Found[i]
			if _, shared := pieces[b.Upload]; shared {
				p.bad(Blob, "blob %q of agent %q has the pieces of another blob, %s", b.Name, b.Agent, b.Upload)
			}
			pieces[b.Upload], whole[b.Upload] = b.Size, *b
			counts[b.Agent] += store.BlobCounts(b.Size)
			q.After = b.Ref()
		}
		if len(q.Found) < blobPage {
			break
		}
	}
	for _, u := range p.t.Uploads {
		pieces[u.Name] = u.Size
		counts[""] += store.BlobCounts(u.Size)
	}
	if err := p.pieces(pieces, whole); err != nil {
		return err
	}
	for agent, n := range p.t.BlobBytes {
		if counts[agent] != n {
			p.bad(Blob, "the blobs of agent %q count %d bytes, its row says %d", agent, counts[agent], n)
		}
		if n > mailroom.MaxBlobs {
			p.bad(Limit, "the blobs of agent %q count %d bytes, the limit is %d", agent, n, mailroom.MaxBlobs)
		}
		delete(counts, agent)
	}
	for _, agent := range slices.Sorted(maps.Keys(counts)) {
		p.bad(Blob, "the blobs of agent %q count %d bytes, its row says 0", agent, counts[agent])
	}
	return nil
}

// pieces compares the stored pieces with the size that each upload should have, and the content of those that are whole
// with the digest of their blob.
func (p *checker) pieces(want map[string]int64, blobs map[string]store.Blob) error {
	q := store.BlobQuery{Sizes: true}
	if _, err := p.r.Keys(store.KeyQuery{Thread: p.t.ID, Blobs: &q}); err != nil {
		return err
	}
	for _, u := range q.Uploads {
		size, named := want[u.Upload]
		switch n := (size + store.BlobPieceBytes - 1) / store.BlobPieceBytes; {
		case !named:
			p.bad(Blob, "%d bytes of upload %s belong to no blob", u.Bytes, u.Upload)
		case u.Bytes != size || int64(u.Pieces) != n:
			p.bad(Blob, "upload %s has %d bytes in %d pieces, which should be %d in %d", u.Upload, u.Bytes, u.Pieces, size, n)
			delete(blobs, u.Upload)
		}
		delete(want, u.Upload)
	}
	for _, id := range slices.Sorted(maps.Keys(want)) {
		if want[id] > 0 {
			p.bad(Blob, "the %d bytes of upload %s are missing", want[id], id)
			delete(blobs, id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(blobs)) {
		if err := p.content(blobs[id]); err != nil {
			return err
		}
	}
	return nil
}

// content compares the content of a blob with its digest, one piece at a time.
func (p *checker) content(b store.Blob) error {
	sum := sha256.New()
	for n := 0; int64(n)*store.BlobPieceBytes < b.Size; n++ {
		q := store.BlobQuery{Piece: &store.BlobPiece{Upload: b.Upload, Number: n}}
		if _, err := p.r.Keys(store.KeyQuery{Thread: p.t.ID, Blobs: &q}); err != nil {
			return err
		}
		sum.Write(q.Body) // a hash returns no error
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != b.Digest {
		p.bad(Blob, "the content of blob %q of agent %q has the digest %s, its row says %s", b.Name, b.Agent, got, b.Digest)
	}
	return nil
}
