package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"mailroom"
	"mailroom/internal/check"
	"mailroom/store"
	"mailroom/thread"
)

// Blobs stores and reads the blobs of runs: the ledger of this process, or of a remote server. It is no part of Ledger,
// because an engine whose agents keep no blobs needs none.
type Blobs interface {
	// Upload stores content for a step under the claim. The Name of the result is the Upload of a [thread.BlobChange].
	Upload(ctx context.Context, c mailroom.Claim, content io.Reader) (mailroom.Blob, error)
	// ReadBlob returns the content of a blob of the run's agent in its thread, or nil.
	ReadBlob(ctx context.Context, run *mailroom.Run, name string) ([]byte, error)
	// ListBlobs returns blobs as [mailroom.Blobs] does.
	ListBlobs(ctx context.Context, run *mailroom.Run, prefix, after string) ([]mailroom.Blob, error)
}

// transferTries is how often a blob is sent or read at least if there is no answer.
const transferTries = 5

func (s *session) Blobs() mailroom.Blobs { return blobs{s} }

// blobs implements [mailroom.Blobs] for the agent of a session.
type blobs struct{ session *session }

func (b blobs) Get(ctx context.Context, name string) ([]byte, error) {
	from, err := b.open(name)
	if err != nil {
		return nil, err
	}
	var content []byte
	err = b.session.transfer(ctx, func() (err error) {
		content, err = from.ReadBlob(ctx, b.session.row.Load(), name)
		return err
	})
	return content, err
}

func (b blobs) Put(ctx context.Context, name string, content []byte) error {
	if content == nil {
		content = []byte{} // nil deletes
	}
	return b.write(ctx, name, content)
}

func (b blobs) Delete(ctx context.Context, name string) error { return b.write(ctx, name, nil) }

func (b blobs) write(ctx context.Context, name string, content []byte) error {
	return b.session.Append(ctx, mailroom.Step{NoProgress: true, Blobs: map[string][]byte{name: content}})
}

func (b blobs) List(ctx context.Context, prefix, after string) ([]mailroom.Blob, error) {
	from, err := b.open(prefix + after + "-")
	if err != nil {
		return nil, err
	}
	return ask(ctx, b.session, func(ctx context.Context) ([]mailroom.Blob, error) {
		return from.ListBlobs(ctx, b.session.row.Load(), prefix, after)
	})
}

// open returns where blobs are, if the session lasts and a blob can have the name.
func (b blobs) open(name string) (Blobs, error) {
	switch from := b.session.engine.options.Blobs; {
	case b.session.closed.Load():
		return nil, b.session.ended()
	case from == nil:
		return nil, mailroom.Errorf(mailroom.CodeInvalid, "this program keeps no blobs for its agents")
	default:
		return from, thread.CheckBlobName(name)
	}
}

// upload stores the contents of blobs, and returns the changes for the step that writes them.
func (s *session) upload(ctx context.Context, step mailroom.Step) (changes []thread.BlobChange, err error) {
	if len(step.Blobs) == 0 {
		return nil, nil
	}
	for _, name := range slices.Sorted(maps.Keys(step.Blobs)) {
		if _, err := (blobs{s}).open(name); err != nil {
			return nil, err
		}
		if n := len(step.Blobs[name]); n > mailroom.MaxBlob {
			return nil, check.TooLarge("blob", fmt.Sprintf("is larger than %d bytes", mailroom.MaxBlob), n)
		}
		changes = append(changes, thread.BlobChange{Name: name})
	}
	bare := thread.StepCommit{Step: step, Blobs: changes}
	bare.Step.Parts, bare.Step.Blobs = nil, nil
	if err := bare.Check(); err != nil { // before the contents are stored for it
		return nil, err
	}
	for i := range changes {
		content := step.Blobs[changes[i].Name]
		if content == nil {
			continue
		}
		stored, err := s.uploadOne(ctx, content)
		if err != nil {
			return nil, s.lost(err)
		}
		changes[i].Upload = stored.Name
	}
	return changes, nil
}

// uploadOne uploads one content.
func (s *session) uploadOne(ctx context.Context, content []byte) (stored mailroom.Blob, err error) {
	err = s.transfer(ctx, func() (err error) {
		stored, err = s.engine.options.Blobs.Upload(ctx, s.claim, bytes.NewReader(content))
		return err
	})
	return stored, err
}

// transfer calls f, which sends or reads a blob, until it has an answer: for at least the duration of a lease and
// transferTries calls. Unlike other calls, one call of f may take longer than a lease.
func (s *session) transfer(ctx context.Context, f func() error) error {
	until, pause := time.Now().Add(s.engine.options.Lease), 10*time.Millisecond
	for try := 1; ; try++ {
		err := f()
		switch {
		case err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()):
			return s.refused(err)
		case mailroom.CodeOf(err) != mailroom.CodeUnavailable || errors.Is(err, store.ErrClosed) || s.ctx.Err() != nil ||
			ctx.Err() != nil || try >= transferTries && time.Now().After(until):
			return err
		}
		if !backOff(ctx, &pause) {
			return err
		}
	}
}
