package mcp

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// requestKey is the member of a request's metadata in which [eventConn] puts the id of the request for its handler, to
// which the library does not give it.
const requestKey = "mailroom/request"

// Serve serves the tools, and the events of the inbox, over a connection until it or ctx ends.
func Serve(ctx context.Context, o Options, over sdk.Transport) error {
	return serveStreams(ctx, o, over, &eventStreams{every: heartbeat, life: maxStream})
}

func serveStreams(ctx context.Context, o Options, over sdk.Transport, streams *eventStreams) error {
	t := &eventTransport{Transport: over}
	streams.send = t.notify
	streams.onEnd = func(cancel context.CancelFunc) func() bool { return context.AfterFunc(ctx, cancel) }
	return newServer(o, streams).Run(ctx, t)
}

// eventTransport connects once, and sends notifications of any method, which the library does not.
type eventTransport struct {
	sdk.Transport
	conn *eventConn // set by Connect, before the first request is read
}

func (t *eventTransport) Connect(ctx context.Context) (sdk.Connection, error) {
	conn, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	t.conn = &eventConn{conn}
	return t.conn, nil
}

func (t *eventTransport) notify(ctx context.Context, method string, params any) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return err
	}
	return t.conn.Write(ctx, &jsonrpc.Request{Method: method, Params: raw})
}

// eventConn adds the id of a request for events/stream to its metadata.
type eventConn struct{ sdk.Connection }

func (c *eventConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	msg, err := c.Connection.Read(ctx)
	if q, ok := msg.(*jsonrpc.Request); ok && err == nil && q.IsCall() && q.Method == methodEventsStream {
		q.Params = withRequestID(q.Params, q.ID)
	}
	return msg, err
}

// withRequestID adds the id to the metadata of parameters. Parameters without metadata are refused later.
func withRequestID(params json.RawMessage, id jsonrpc.ID) json.RawMessage {
	var all, meta map[string]json.RawMessage
	if json.Unmarshal(params, &all) != nil || json.Unmarshal(all["_meta"], &meta) != nil || meta == nil {
		return params
	}
	var err error
	if meta[requestKey], err = json.Marshal(id.Raw()); err != nil {
		return params
	}
	if all["_meta"], err = json.Marshal(meta); err != nil {
		return params
	}
	if raw, err := json.Marshal(all); err == nil {
		return raw
	}
	return params
}
