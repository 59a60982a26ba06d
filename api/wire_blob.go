package api

import (
	"time"

	"mailroom"
	"mailroom/thread"
)

// Upload is content that a worker has stored for a blob.
type Upload struct {
	Upload string `json:"upload" doc:"For the blobs of a step under the same claim, once."`
	Size   int64  `json:"size" doc:"In bytes."`
	Digest string `json:"digest" doc:"SHA-256 of the content, in hexadecimal."`
}

// Blob is content that an agent keeps in a thread under a name.
type Blob struct {
	Name      string    `json:"name" doc:"Unique for the agent in the thread."`
	Size      int64     `json:"size" doc:"In bytes."`
	Digest    string    `json:"digest" doc:"SHA-256 of the content, in hexadecimal."`
	WrittenAt time.Time `json:"written_at" doc:"Time of the step that wrote this content."`
}

// BlobChange writes or deletes a blob with a step.
type BlobChange struct {
	Name   string `json:"name" doc:"At most 256 bytes of UTF-8, without NUL. Each once in a step."`
	Upload string `json:"upload,omitempty" doc:"The content, from the answer to an upload. Absent: deletes the blob."`
}

// ReadBlobChanges converts changes of blobs from their wire type.
func ReadBlobChanges(changes []BlobChange) []thread.BlobChange {
	var out []thread.BlobChange
	for _, c := range changes {
		out = append(out, thread.BlobChange(c))
	}
	return out
}

// FormatBlobs converts blobs to their wire type.
func FormatBlobs(blobs []mailroom.Blob) []Blob {
	var out []Blob
	for _, b := range blobs {
		out = append(out, Blob(b))
	}
	return out
}
