package mailroom

import (
	"context"
	"time"
)

// Blob describes a blob: content of up to MaxBlob bytes that an agent keeps in a thread under a name.
type Blob struct {
	Name      string
	Size      int64  // of the content, in bytes
	Digest    string // SHA-256 of the content, in hexadecimal
	WrittenAt time.Time
}

// Blobs are the blobs of an agent in the thread of its run. Later attempts and later runs of the agent in this thread
// see them, other agents do not. They end with the thread: neither a retention nor a new session of a chat drops them,
// and a run that fails keeps what its steps wrote. Their sizes count toward the quota of the thread's owner, and an
// agent has at most MaxBlobs bytes of them in a thread. At a server of a version before blobs each call fails with
// CodeInvalid.
type Blobs interface {
	// Get returns the content of a blob, or nil if no blob has this name.
	Get(ctx context.Context, name string) ([]byte, error)
	// Put writes a blob, and replaces one with the same name. It commits alone, and the message being written goes
	// on; [Step].Blobs commits blobs together with a step. While it is replaced, both contents count.
	Put(ctx context.Context, name string, content []byte) error
	// Delete deletes a blob, if there is one.
	Delete(ctx context.Context, name string) error
	// List returns the blobs whose names begin with prefix and follow after, in the order of their names, at most
	// 1,000. The last name is the after of the next call.
	List(ctx context.Context, prefix, after string) ([]Blob, error)
}
