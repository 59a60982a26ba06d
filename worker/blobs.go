package worker

import (
	"context"
	"errors"
	"io"
	"slices"

	"mailroom"
	"mailroom/api"
)

// blobContract is the first contract whose servers have blobs.
const blobContract = 5

// requireBlobs refuses blobs if the server has none.
func (l *Ledger) requireBlobs() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.contract >= blobContract {
		return nil
	}
	// Transient: the server may be updated while the run is retried.
	return &mailroom.Failure{Class: mailroom.ClassTransient,
		Err: mailroom.Errorf(mailroom.CodeInvalid, "the server is too old for blobs; update the server")}
}

// Upload implements engine.Blobs.
func (l *Ledger) Upload(ctx context.Context, c mailroom.Claim, content io.Reader) (mailroom.Blob, error) {
	if err := l.requireBlobs(); err != nil {
		return mailroom.Blob{}, err
	}
	out, err := l.client.Work.Upload(ctx, c, content)
	if err := l.onAnswer(err); err != nil {
		return mailroom.Blob{}, err
	}
	return mailroom.Blob{Name: out.Upload, Size: out.Size, Digest: out.Digest}, nil
}

// ReadBlob implements engine.Blobs.
func (l *Ledger) ReadBlob(ctx context.Context, run *mailroom.Run, name string) ([]byte, error) {
	if err := l.requireBlobs(); err != nil {
		return nil, err
	}
	content, err := l.client.Work.Blob(ctx, claimOf(run), name)
	if namesNoBlob(err) {
		return nil, l.onAnswer(nil)
	}
	return content, l.onAnswer(err)
}

// namesNoBlob reports whether err says that there is no blob of this name, and not that there is no such claim.
func namesNoBlob(err error) bool {
	e, ok := errors.AsType[*mailroom.Error](err)
	return ok && e.Code == mailroom.CodeNotFound &&
		slices.ContainsFunc(e.Fields, func(f mailroom.Field) bool { return f.Location == "query.name" })
}

// ListBlobs implements engine.Blobs.
func (l *Ledger) ListBlobs(ctx context.Context, run *mailroom.Run, prefix, after string) ([]mailroom.Blob, error) {
	if err := l.requireBlobs(); err != nil {
		return nil, err
	}
	page, err := retryRead(ctx, l, func(ctx context.Context) (api.Page[api.Blob], error) {
		return l.client.Work.Blobs(ctx, claimOf(run), prefix, after)
	})
	var out []mailroom.Blob
	for _, b := range page.Items {
		out = append(out, mailroom.Blob(b))
	}
	return out, err
}
