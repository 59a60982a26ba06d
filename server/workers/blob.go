package workers

import (
	"context"
	"io"

	"mailroom"
	"mailroom/api"
)

// Upload stores the body of a request as the content of a blob that a later step writes. The body is read and stored
// piece by piece, and no lock is held while a piece is awaited.
func (ops *Operations) Upload(ctx context.Context, in *claimedInput) (*Body[api.Upload], error) {
	h, err := ops.findLiveClaim(ctx, in.ClaimPath, nil)
	if err != nil {
		return nil, err
	}
	b, err := ops.options.Attempts.Upload(ctx, h.Claim, ops.options.Content(ctx))
	if err != nil {
		return nil, err
	}
	return &Body[api.Upload]{api.Upload{Upload: b.Name, Size: b.Size, Digest: b.Digest}}, nil
}

type claimedBlobsInput struct {
	ClaimPath
	Prefix string `query:"prefix" maxLength:"256" doc:"Only names that begin with it."`
	After  string `query:"after" maxLength:"256" doc:"Only names behind it, in the order of their bytes."`
}

// blobPage is the number of blobs in a page, unless it is the last one.
const blobPage = 1000

// Blobs lists the blobs of a claimed run's agent in its thread, by name. The next of a page is the after of the
// following one.
func (ops *Operations) Blobs(ctx context.Context, in *claimedBlobsInput) (*Body[api.Page[api.Blob]], error) {
	h, err := ops.findLiveClaim(ctx, in.ClaimPath, nil)
	if err != nil {
		return nil, err
	}
	found, err := ops.options.Attempts.ListBlobs(ctx, h.run, in.Prefix, in.After)
	if err != nil {
		return nil, err
	}
	out := onePage(api.FormatBlobs(found))
	if len(found) >= blobPage {
		out.Body.Next = &found[len(found)-1].Name
	}
	return out, nil
}

// BlobInput names a blob of a claimed run's agent.
type BlobInput struct {
	ClaimPath
	Name string `query:"name" required:"true" maxLength:"256" example:"index.bin" doc:"Of the blob."`
}

// Blob returns a blob of a claimed run's agent, and its content, which is read piece by piece.
func (ops *Operations) Blob(ctx context.Context, in *BlobInput) (mailroom.Blob, io.Reader, error) {
	h, err := ops.findLiveClaim(ctx, in.ClaimPath, nil)
	if err != nil {
		return mailroom.Blob{}, nil, err
	}
	b, content, err := ops.options.Attempts.OpenBlob(ctx, h.run, in.Name)
	if err == nil && content == nil {
		// Workers see by the field that the blob is missing and not the claim.
		err = &mailroom.Error{Code: mailroom.CodeNotFound, Message: "the agent has no blob of this name in the thread",
			Fields: []mailroom.Field{{Location: "query.name", Message: "names no blob"}}}
	}
	return b, content, err
}
