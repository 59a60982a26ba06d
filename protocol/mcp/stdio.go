package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Batches of JSON-RPC are a part of MCP up to the revision before singleRevision.
// https://modelcontextprotocol.io/specification/2025-06-18/changelog
const (
	singleRevision = "2025-06-18"
	maxRefusals    = 100 // of the calls in one batch
)

// Stdio returns the transport of the standard streams. It refuses batches in sessions of a revision without them, and
// before a session has a revision. The library ends such a session instead, and only over its own connection.
func Stdio(r io.Reader, w io.Writer) sdk.Transport {
	out := &lockedWriter{w: w}
	in := &singles{frames: &frameReader{r: r}, refusals: out}
	in.values = json.NewDecoder(in.frames)
	return &stdio{IOTransport: sdk.IOTransport{Reader: in, Writer: out}, in: in}
}

type stdio struct {
	sdk.IOTransport
	in *singles
}

// Connect implements [sdk.Transport].
func (t *stdio) Connect(ctx context.Context) (sdk.Connection, error) {
	conn, err := t.IOTransport.Connect(ctx)
	return &revisionConn{Connection: conn, in: t.in}, err
}

// revisionConn finds out which revision a session has.
type revisionConn struct {
	sdk.Connection
	in *singles

	mu    sync.Mutex
	hello jsonrpc.ID // of the call initialize; owned by mu
}

func (c *revisionConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	msg, err := c.Connection.Read(ctx)
	if q, ok := msg.(*jsonrpc.Request); ok && err == nil && q.Method == "initialize" {
		c.mu.Lock()
		c.hello = q.ID
		c.mu.Unlock()
	}
	return msg, err
}

func (c *revisionConn) Write(ctx context.Context, msg jsonrpc.Message) error {
	if a, ok := msg.(*jsonrpc.Response); ok && a.Error == nil {
		c.mu.Lock()
		hello := c.hello
		c.mu.Unlock()
		var result struct {
			Revision string `json:"protocolVersion"`
		}
		if hello.IsValid() && a.ID == hello && json.Unmarshal(a.Result, &result) == nil {
			c.in.setRevision(result.Revision) // before the client can send a batch
		}
	}
	return c.Connection.Write(ctx, msg)
}

// singles reads messages, and answers batches that are not allowed itself.
type singles struct {
	frames   *frameReader
	values   *json.Decoder
	refusals io.Writer
	rest     []byte // of the present message

	mu       sync.Mutex
	revision string // of the session; "": none yet. Owned by mu
}

func (s *singles) setRevision(revision string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision = revision
}

func (s *singles) allowsBatches() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revision != "" && s.revision < singleRevision
}

func (s *singles) Read(p []byte) (int, error) {
	for len(s.rest) == 0 {
		var message json.RawMessage
		if err := s.values.Decode(&message); err != nil {
			return 0, err
		}
		s.frames.read = 0
		if message[0] == '[' && !s.allowsBatches() {
			if err := s.refuse(message); err != nil {
				return 0, err
			}
			continue
		}
		s.rest = append(message, '\n')
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// Close does nothing: the reader is of the caller.
func (*singles) Close() error { return nil }

// refuse answers each call of a batch with an error, so that its caller does not wait, or the batch if it has none.
func (s *singles) refuse(batch json.RawMessage) error {
	var calls []struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	_ = json.Unmarshal(batch, &calls) // what is no call gets no answer
	var ids []json.RawMessage
	for _, call := range calls {
		if call.Method != "" && len(call.ID) > 0 && len(ids) < maxRefusals {
			ids = append(ids, call.ID)
		}
	}
	if len(ids) == 0 {
		ids = append(ids, json.RawMessage("null"))
	}
	var out bytes.Buffer
	for _, id := range ids {
		raw, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "error": map[string]any{
			"code": jsonrpc.CodeInvalidRequest, "message": "JSON-RPC batches are no part of this session's revision of MCP; " +
				"send each message by itself (revision 2025-03-26 has batches, after initialize)"}})
		if err != nil {
			return err
		}
		out.Write(append(raw, '\n'))
	}
	_, err := s.refusals.Write(out.Bytes())
	return err
}

// frameReader bounds the bytes of one message, as the library does.
type frameReader struct {
	r    io.Reader
	read int // since the last whole message
}

func (f *frameReader) Read(p []byte) (int, error) {
	if f.read >= sdk.DefaultMaxLineLength {
		return 0, errors.New("a message is too long")
	}
	n, err := f.r.Read(p[:min(len(p), sdk.DefaultMaxLineLength-f.read)])
	f.read += n
	return n, err
}

// lockedWriter writes whole messages of several goroutines one after the other.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer // owned by mu
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// Close does nothing: the writer is of the caller.
func (*lockedWriter) Close() error { return nil }
