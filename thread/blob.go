package thread

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"mailroom"
	"mailroom/internal/check"
	"mailroom/store"
)

const (
	// maxUploads bounds the uploads of an attempt that no step has written yet.
	maxUploads = 16
	// MaxBlobChanges bounds the blobs that one step writes or deletes.
	MaxBlobChanges = 100
)

// BlobChange writes or deletes a blob of the run's agent with a step.
type BlobChange struct {
	Name   string
	Upload string `json:",omitempty"` // that has the content; "": deletes the blob
}

// Piece is the next piece of an upload of a run, under a claim. An upload belongs to its attempt: what no step has
// written when the attempt ends is dropped.
type Piece struct {
	mailroom.Claim
	Upload string // see UploadID
	Number int    // from 0
	Body   []byte // BlobPieceBytes, or fewer in the last piece
	Digest string // of the content, with the last piece; else ""
}

// UploadID returns an id for an upload under a claim. random is different for each upload.
func UploadID(c mailroom.Claim, random string) string {
	return c.Run + ":" + strconv.Itoa(c.Attempt) + ":" + random
}

// CheckBlobName returns an error if no blob can have this name.
func CheckBlobName(name string) error { return checkBlobName("name", name) }

func checkBlobName(at, name string) error {
	switch {
	case name == "":
		return check.Invalid(at, "is empty; a blob needs a name", name)
	case len(name) > mailroom.MaxBlobName:
		return check.Invalid(at, fmt.Sprintf("is longer than %d bytes", mailroom.MaxBlobName), truncate(name, 80))
	case !check.IsClean(name):
		return check.Invalid(at, "must be valid UTF-8 without NUL", truncate(name, 80))
	}
	return nil
}

func checkBlobs(changes []BlobChange) error {
	if len(changes) > MaxBlobChanges {
		return check.Invalid("blobs", fmt.Sprintf("are more than %d", MaxBlobChanges), len(changes))
	}
	seen := map[string]bool{}
	for i, b := range changes {
		if err := checkBlobName(fmt.Sprintf("blobs[%d].name", i), b.Name); err != nil {
			return err
		}
		for _, key := range []string{"n" + b.Name, "u" + b.Upload} {
			if seen[key] && key != "u" {
				return check.Invalid("blobs", "have a name or an upload twice", b.Name)
			}
			seen[key] = true
		}
	}
	return nil
}

// Blobs are the rows of blobs that a transaction loaded, and their changes.
type Blobs struct {
	loaded  map[store.BlobRef]*store.Blob // nil: there is no such blob
	pieces  []store.BlobPiece
	changed map[store.BlobRef]bool
	dropped []store.UploadRef

	// DroppedBytes is the size of the content that this transaction drops.
	DroppedBytes int64
}

// Missing returns the names of the changes whose rows are not loaded.
func (b *Blobs) Missing(thread, agent string, changes []BlobChange) (names []string) {
	for _, c := range changes {
		if _, ok := b.loaded[store.BlobRef{Thread: thread, Agent: agent, Name: c.Name}]; !ok {
			names = append(names, c.Name)
		}
	}
	return names
}

// Add adds the loaded rows, which are all that exist with these names.
func (b *Blobs) Add(thread, agent string, names []string, rows []store.Blob) {
	if b.loaded == nil {
		b.loaded, b.changed = map[store.BlobRef]*store.Blob{}, map[store.BlobRef]bool{}
	}
	for _, name := range names {
		b.loaded[store.BlobRef{Thread: thread, Agent: agent, Name: name}] = nil
	}
	for i := range rows {
		b.loaded[rows[i].Ref()] = &rows[i]
	}
}

// set replaces the row of a blob; nil deletes it.
func (b *Blobs) set(ref store.BlobRef, row *store.Blob) {
	b.loaded[ref], b.changed[ref] = row, true
}

func (b *Blobs) collect(c *store.Changes) {
	if len(b.changed)+len(b.pieces)+len(b.dropped) == 0 {
		return
	}
	for ref := range b.changed {
		if row := b.loaded[ref]; row != nil {
			c.Blobs = append(c.Blobs, *row)
		} else {
			c.DropBlobs = append(c.DropBlobs, ref)
		}
	}
	// A piece of this transaction may be dropped in it, and a store drops first.
	for _, p := range b.pieces {
		if !slices.Contains(b.dropped, store.UploadRef{Thread: p.Thread, Upload: p.Upload}) {
			c.BlobPieces = append(c.BlobPieces, p)
		}
	}
	c.DropUploads = append(c.DropUploads, b.dropped...)
}

// uploadAt returns the index of an upload of the thread, or -1.
func uploadAt(t *State, id string) int {
	return slices.IndexFunc(t.Uploads, func(u mailroom.Blob) bool { return u.Name == id })
}

// countBlobs adds n bytes to what the blobs of an agent count; "" counts uploads.
func countBlobs(t *State, agent string, n int64) {
	t.BlobBytes = maps.Clone(t.BlobBytes) // the stored map may be shared
	if t.BlobBytes == nil {
		t.BlobBytes = map[string]int64{}
	}
	if t.BlobBytes[agent] += n; t.BlobBytes[agent] == 0 {
		delete(t.BlobBytes, agent)
	}
	if len(t.BlobBytes) == 0 {
		t.BlobBytes = nil
	}
	t.Bytes += n
	t.Touch()
}

// AddPiece adds a piece to an upload. Pieces come in order, each once: a caller that does not know whether a piece
// was stored begins another upload.
func AddPiece(t *State, p *Piece, now time.Time) error {
	r, err := t.claimedRun(p.Claim)
	if err != nil {
		return err
	}
	i, size := uploadAt(t, p.Upload), int64(0)
	if i >= 0 {
		size = t.Uploads[i].Size
	}
	adds := int64(len(p.Body))
	if i < 0 {
		adds = store.BlobCounts(adds)
	}
	switch {
	case !strings.HasPrefix(p.Upload, UploadID(p.Claim, "")):
		return check.Invalid("upload", "belongs to another attempt", p.Upload)
	case (i < 0) != (p.Number == 0) || size != int64(p.Number)*store.BlobPieceBytes || i >= 0 && t.Uploads[i].Digest != "":
		return mailroom.Errorf(mailroom.CodeConflict, "piece %d does not follow the %d bytes of the upload", p.Number, size)
	case len(p.Body) > store.BlobPieceBytes || len(p.Body) < store.BlobPieceBytes && p.Digest == "":
		return check.Invalid("body", "must be a whole piece, unless it is the last one", len(p.Body))
	case size+int64(len(p.Body)) > mailroom.MaxBlob:
		return check.TooLarge("blob", fmt.Sprintf("is larger than %d bytes", mailroom.MaxBlob), size+int64(len(p.Body)))
	case i < 0 && len(t.Uploads) >= maxUploads:
		return mailroom.Errorf(mailroom.CodeConflict,
			"the attempt has %d uploads that no step has written: write or repeat fewer at a time", maxUploads)
	case t.BlobBytes[r.Agent]+t.BlobBytes[""]+adds > mailroom.MaxBlobs:
		return check.TooLarge("blob", fmt.Sprintf("exceeds the %d bytes of blobs that an agent may have in a thread: "+
			"delete some first", mailroom.MaxBlobs), t.BlobBytes[r.Agent]+t.BlobBytes[""])
	}
	t.Uploads = slices.Clone(t.Uploads) // the stored list may be shared
	if i < 0 {
		i = len(t.Uploads)
		t.Uploads = append(t.Uploads, mailroom.Blob{Name: p.Upload, WrittenAt: now})
	}
	t.Uploads[i].Size += int64(len(p.Body))
	t.Uploads[i].Digest = p.Digest
	if len(p.Body) > 0 {
		t.Blobs.pieces = append(t.Blobs.pieces,
			store.BlobPiece{Thread: t.ID, Upload: p.Upload, Number: p.Number, Body: p.Body})
	}
	countBlobs(t, "", adds)
	return nil
}

// DropUpload drops an upload of the claimed run, if no step has written it. It changes nothing without one.
func DropUpload(t *State, c mailroom.Claim, id string) error {
	if _, err := t.claimedRun(c); err != nil {
		return err
	}
	if i := uploadAt(t, id); i >= 0 {
		dropUpload(t, i)
	}
	return nil
}

// dropUpload drops the i-th upload.
func dropUpload(t *State, i int) {
	u := t.Uploads[i]
	dropPieces(t, u.Name, u.Size)
	removeUpload(t, i)
	countBlobs(t, "", -store.BlobCounts(u.Size))
}

// dropUploads drops what the attempt that ends has not written.
func dropUploads(t *State) {
	for len(t.Uploads) > 0 {
		dropUpload(t, len(t.Uploads)-1)
	}
}

func removeUpload(t *State, i int) {
	if t.Uploads = slices.Delete(slices.Clone(t.Uploads), i, i+1); len(t.Uploads) == 0 {
		t.Uploads = nil
	}
}

func dropPieces(t *State, upload string, size int64) {
	t.Blobs.DroppedBytes += size
	t.Blobs.dropped = append(t.Blobs.dropped, store.UploadRef{Thread: t.ID, Upload: upload})
}

// checkUploads refuses changes of blobs whose uploads are not complete, or were made under another claim: a server of
// the version before, which knows no uploads, leaves the uploads of an attempt that it ends to the end of the next one.
func checkUploads(t *State, c mailroom.Claim, changes []BlobChange) error {
	for _, b := range changes {
		if b.Upload == "" {
			continue
		}
		if i := uploadAt(t, b.Upload); i < 0 || t.Uploads[i].Digest == "" || !strings.HasPrefix(b.Upload, UploadID(c, "")) {
			return mailroom.Errorf(mailroom.CodeConflict,
				"the content of blob %q is not stored: upload it again under this claim", b.Name)
		}
	}
	return nil
}

// writeBlobs applies changes that checkUploads accepted. The rows of the blobs are loaded.
func writeBlobs(t *State, r *mailroom.Run, changes []BlobChange, now time.Time) {
	for _, c := range changes {
		ref := store.BlobRef{Thread: t.ID, Agent: r.Agent, Name: c.Name}
		old := t.Blobs.loaded[ref]
		i := uploadAt(t, c.Upload)
		if i >= 0 && old != nil && old.Digest == t.Uploads[i].Digest {
			dropUpload(t, i) // the same content
			continue
		}
		if old != nil {
			dropPieces(t, old.Upload, old.Size)
			countBlobs(t, r.Agent, -store.BlobCounts(old.Size))
		}
		if i < 0 {
			if old != nil {
				t.Blobs.set(ref, nil)
			}
			continue
		}
		u := t.Uploads[i]
		removeUpload(t, i)
		countBlobs(t, "", -store.BlobCounts(u.Size))
		countBlobs(t, r.Agent, store.BlobCounts(u.Size))
		t.Blobs.set(ref, &store.Blob{Thread: t.ID, Agent: r.Agent, Name: c.Name, Upload: u.Name, Size: u.Size,
			Digest: u.Digest, WrittenAt: now})
	}
}

// UploadBytes returns what the open uploads count, which the end of the attempt drops.
func UploadBytes(t *State) int { return int(t.BlobBytes[""]) }

// BlobSum returns what the blobs of all agents count.
func BlobSum(t *State) (sum int64) {
	for _, n := range t.BlobBytes {
		sum += n
	}
	return sum
}

// DropBlobs drops blobs of a thread that is being deleted.
func DropBlobs(t *State, rows []store.Blob) {
	for i := range rows {
		b := &rows[i]
		t.Blobs.Add(t.ID, b.Agent, []string{b.Name}, nil)
		t.Blobs.set(b.Ref(), nil)
		dropPieces(t, b.Upload, b.Size)
		countBlobs(t, b.Agent, -store.BlobCounts(b.Size))
	}
}
