package store

import (
	"time"

	"mailroom"
)

const (
	// BlobPieceBytes is the size of a piece of a blob but the last one.
	BlobPieceBytes = 256 << 10
	// blobRowBytes is what a blob counts besides its content: many small blobs are not free.
	blobRowBytes = 512
)

// Blob is the row of content that an agent keeps in a thread under a name. The content is the pieces of an upload,
// which were stored before, one transaction each: so no transaction is as long as a blob is large. The row is written
// in one transaction, so a blob is always whole.
type Blob struct {
	Thread    string
	Agent     string
	Name      string
	Upload    string // unique in the thread
	Size      int64
	Digest    string // SHA-256 of the content, in hexadecimal
	WrittenAt time.Time
}

// BlobCounts returns what content of this size counts toward the bounds of blobs and the quota of bytes.
func BlobCounts(size int64) int64 { return size + blobRowBytes }

// Ref returns the name of the row.
func (b *Blob) Ref() BlobRef { return BlobRef{b.Thread, b.Agent, b.Name} }

// Show returns the row as agents see it.
func (b *Blob) Show() mailroom.Blob {
	return mailroom.Blob{Name: b.Name, Size: b.Size, Digest: b.Digest, WrittenAt: b.WrittenAt}
}

// BlobRef names a blob.
type BlobRef struct{ Thread, Agent, Name string }

// BlobPiece is a part of the content of an upload, in pieces from 0. All but the last have BlobPieceBytes. An upload of
// no bytes has no piece.
type BlobPiece struct {
	Thread string
	Upload string
	Number int
	Body   []byte
}

// UploadRef names an upload.
type UploadRef struct{ Thread, Upload string }

// UploadSize sums up the stored pieces of an upload.
type UploadSize struct {
	Upload string
	Pieces int
	Bytes  int64
}

// BlobQuery selects blobs of a thread. With Piece, the query sets Body, with Sizes it sets Uploads, else Found.
type BlobQuery struct {
	Agent  string   // "": of all agents
	Names  []string // with Agent only: these, as far as they exist, in any order
	Prefix string   // with Agent only, and without Names
	// After are the agent and the name behind which the list begins; not with Names.
	After BlobRef
	Limit int // 0: no limit

	Piece *BlobPiece // this piece of this upload; its Body is not used
	Sizes bool       // the sums of the pieces of all uploads of the thread

	Found   []Blob       // by Agent and Name, in the order of bytes
	Body    []byte       // of the piece; nil: no such piece
	Uploads []UploadSize // by Upload, in the order of bytes
}
