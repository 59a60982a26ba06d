package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"mailroom"
	"mailroom/auth"
	"mailroom/server/internal/request"
	"mailroom/server/workers"
	"mailroom/store"
)

const (
	// uploadRoute is the route whose body is the content of a blob. It is read by its handler, piece by piece.
	uploadRoute = "POST /v1/claims/{claim}/uploads"
	// binary is the type of content that the server does not look into.
	binary = "application/octet-stream"
	// uploadMemory is what an upload counts toward the budget of bodies: the piece that is received, and its copies until
	// it is committed.
	uploadMemory = 3 * store.BlobPieceBytes
)

// contentReader reads the content of a blob from the body of a request. Each piece has the time that other bodies have
// as a whole, so the time of an upload is bounded too.
type contentReader struct {
	body    io.Reader
	out     *response
	timeout time.Duration
	left    int // bytes of the piece that are still to come
}

// Read implements [io.Reader]. Of all ends of a body, only a complete one is io.EOF.
func (c *contentReader) Read(p []byte) (int, error) {
	if c.left == 0 {
		c.left = store.BlobPieceBytes
		limitReadTime(c.out, c.timeout)
	}
	n, err := c.body.Read(p[:min(len(p), c.left)])
	c.left -= n
	switch {
	case err == nil:
		return n, nil
	case err == io.EOF:
		limitReadTime(c.out, 0)
		return n, io.EOF
	case isTooLarge(err):
		return n, tooLarge(mailroom.MaxBlob)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, request.Malformed("body", fmt.Sprintf("%d bytes of it did not arrive within %s", store.BlobPieceBytes,
			c.timeout))
	}
	return n, request.Malformed("body", "ended early: the connection failed")
}

// await prepares the body of an upload for its handler.
func (b *bodyReceiver) await(out *response, r *http.Request) error {
	switch err := checkContentType(r, binary); {
	case err != nil:
		return closeAfter(out, err)
	case r.ContentLength > mailroom.MaxBlob:
		drain(r)
		return closeAfter(out, tooLarge(mailroom.MaxBlob))
	}
	q := requestOf(r.Context())
	b.assignCharge(&q.body, r)
	if err := q.body.Resize(r.Context(), uploadMemory); err != nil {
		return closeAfter(out, err)
	}
	q.content = &contentReader{body: http.MaxBytesReader(out, r.Body, mailroom.MaxBlob), out: out, timeout: b.timeout}
	return nil
}

// drainRefused reads the rest of an upload that its handler has refused, before the answer is sent.
func (b *bodyReceiver) drainRefused(out *response, r *http.Request) {
	if q := requestOf(r.Context()); q.content != nil && out.status >= http.StatusBadRequest {
		limitReadTime(out, b.timeout)
		drain(r)
	}
}

// contentOf returns the body of the upload that ctx belongs to.
func contentOf(ctx context.Context) io.Reader {
	if q := requestOf(ctx); q.content != nil {
		return q.content
	}
	return http.NoBody
}

// blobs registers how workers store and read the blobs of their agents.
func (rt router) blobs(h *workers.Operations) {
	most := mailroom.MaxBlob
	content := map[string]*huma.MediaType{binary: {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary",
		MaxLength: &most}}}
	upload := rt.operation(auth.PermissionWork, uploadRoute, "upload",
		"Store the content of a blob for a step of a claimed run")
	upload.RequestBody = &huma.RequestBody{Content: content}
	handle(rt, upload, h.Upload)
	route(rt, auth.PermissionWork, "GET /v1/claims/{claim}/blobs", "get-claimed-blobs",
		"List the blobs of a claimed run's agent in its thread, by name", h.Blobs)
	get := rt.operation(auth.PermissionWork, "GET /v1/claims/{claim}/blob", "get-claimed-blob",
		"Get the content of a blob of a claimed run's agent")
	get.Responses["200"] = &huma.Response{Description: "The content. ETag has its SHA-256.", Content: content}
	handle(rt, get, func(ctx context.Context, in *workers.BlobInput) (*huma.StreamResponse, error) {
		b, from, err := h.Blob(ctx, in)
		if err != nil {
			return nil, err
		}
		return &huma.StreamResponse{Body: func(out huma.Context) { writeBlob(out, b, from) }}, nil
	})
}

// writeBlob writes the content of a blob, one piece at a time. If a step replaces the blob in the meantime, or the
// store fails, it cuts the answer: a reader sees that it is incomplete.
func writeBlob(out huma.Context, b mailroom.Blob, from io.Reader) {
	out.SetHeader("Content-Type", binary)
	out.SetHeader("Content-Length", strconv.FormatInt(b.Size, 10))
	out.SetHeader("ETag", strconv.Quote(b.Digest))
	if _, err := io.Copy(out.BodyWriter(), from); err != nil {
		requestOf(out.Context()).cause = fmt.Errorf("write a blob: %w", err)
		panic(http.ErrAbortHandler)
	}
}

// describeUpload documents the body of an upload, which is not JSON.
func describeUpload(op *huma.Operation) {
	op.RequestBody.Description = fmt.Sprintf("The content, at most %d bytes; more is refused.", mailroom.MaxBlob)
	op.RequestBody.Extensions = map[string]any{maxBytes: mailroom.MaxBlob}
}
