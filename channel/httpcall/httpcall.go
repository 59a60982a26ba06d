// Package httpcall makes HTTP calls to the API of one chat platform.
//
// A call has one of four outcomes:
//
//   - answered: [Client.Do] returns the response, which the platform's adapter decodes;
//   - refused: the platform answered with an error, a [*Refusal];
//   - maybe sent: there is no valid response, and the platform may have carried out the call: a
//     [*TransportError] with MaybeSent;
//   - not sent: a [*TransportError] without MaybeSent.
//
// No error contains a URL, because URLs may contain tokens. Text from outside is redacted and cut
// before it is quoted. Redirects are not followed, because a redirect could carry a token to
// another host. Each call is bounded in bytes and time.
package httpcall

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

const (
	defaultMaxResponse = 32 << 20        // bytes
	downloadTimeout    = 2 * time.Minute // timeout of the download of a whole file
	maxQuote           = 200             // bytes of foreign text in an error
	maxScan            = 64 << 10        // bytes of foreign text searched for secrets
)

// Options describe a platform.
type Options struct {
	// Platform names the platform in errors, such as "Slack".
	Platform string
	// API names the API in errors, such as "the Web API".
	API string
	// Base is the base URL. setting.ParseBaseURL parses it.
	Base *url.URL
	// UserAgent defaults to "mailroom".
	UserAgent string
	// Secrets are replaced in all quoted text. Empty ones are ignored.
	Secrets []string
	// MaxResponse bounds a response in bytes. Defaults to 32 MiB.
	MaxResponse int64
	// TLSTimeout bounds a TLS handshake. Defaults to 10 seconds.
	TLSTimeout time.Duration
	// Transport replaces the default transport and is used unchanged.
	Transport *http.Transport
}

// Client calls the API of one platform. It is safe for concurrent use.
type Client struct {
	options Options
	http    *http.Client
}

// New returns a client.
func New(o Options) *Client {
	if o.UserAgent == "" {
		o.UserAgent = "mailroom"
	}
	if o.MaxResponse <= 0 {
		o.MaxResponse = defaultMaxResponse
	}
	transport := o.Transport
	if transport == nil {
		transport = newTransport(o.TLSTimeout)
	}
	return &Client{options: o, http: &http.Client{
		Transport: transport,
		// A redirect could carry the token to another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func newTransport(tlsTimeout time.Duration) *http.Transport {
	transport := http.DefaultTransport.(*http.Transport).Clone() // guaranteed by net/http
	transport.MaxIdleConnsPerHost = 16
	// A send over a connection that the server has just closed has an unknown outcome, so idle
	// connections are dropped early.
	transport.IdleConnTimeout = 20 * time.Second
	if tlsTimeout > 0 {
		transport.TLSHandshakeTimeout = tlsTimeout
	}
	return transport
}

// HTTP returns the HTTP client, for a WebSocket's handshake.
func (c *Client) HTTP() *http.Client { return c.http }

// CloseIdleConnections closes the connections that no call uses.
func (c *Client) CloseIdleConnections() { c.http.CloseIdleConnections() }

// Request is one call.
type Request struct {
	// Op names the operation in errors, such as "send message".
	Op string
	// Method is the HTTP method. Defaults to GET.
	Method string
	// URL is a path below the base URL, with its query, or an absolute URL.
	URL string
	// Header holds further headers, such as Authorization.
	Header http.Header
	// Body is the request's body, JSON unless Header holds another Content-Type. A nil body sends
	// none.
	Body []byte
	// Timeout bounds a call including its response.
	Timeout time.Duration
	// MaxResponse replaces the bound of the client.
	MaxResponse int64
}

// Response is a response of any status.
type Response struct {
	Status int // HTTP status; 0: no response came
	Header http.Header
	Body   []byte
	// TooLarge reports that the body exceeds its bound and was cut.
	TooLarge bool
}

// RetryAfter returns the pause in the header Retry-After, or 0.
func (r Response) RetryAfter() time.Duration {
	return ParseRetryAfter(r.Header.Get("Retry-After"), time.Now())
}

// status returns the status and its text.
func (r Response) status() string { return fmt.Sprintf("%d %s", r.Status, http.StatusText(r.Status)) }

// Do makes one call. Its error is a [*TransportError]. If only the body could not be read, the
// response still holds the status and the header.
func (c *Client) Do(ctx context.Context, r Request) (Response, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	a, err := c.exchange(ctx, r)
	if err != nil {
		return Response{}, err
	}
	defer a.Body.Close() // the body has been read; a close error changes nothing
	response, err := readResponse(a, cmp.Or(r.MaxResponse, c.options.MaxResponse))
	if err != nil {
		return response, c.TransportError(ctx, r.Op, err, true)
	}
	return response, nil
}

func readResponse(a *http.Response, most int64) (Response, error) {
	r := Response{Status: a.StatusCode, Header: a.Header}
	raw, err := io.ReadAll(io.LimitReader(a.Body, most+1))
	r.TooLarge = int64(len(raw)) > most
	r.Body = raw[:min(int64(len(raw)), most)]
	return r, err
}

// exchange sends a request and returns the response with its body unread. Its error is a
// [*TransportError].
func (c *Client) exchange(ctx context.Context, r Request) (*http.Response, error) {
	var connected, unwritten atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
		// A request that was cancelled while it was written may still have arrived.
		WroteRequest: func(w httptrace.WroteRequestInfo) { unwritten.Store(w.Err != nil && ctx.Err() == nil) },
	})
	address := r.URL
	if strings.HasPrefix(address, "/") {
		address = c.options.Base.String() + address
	}
	var body io.Reader
	if r.Body != nil {
		body = bytes.NewReader(r.Body)
	}
	req, err := http.NewRequestWithContext(traced, r.Method, address, body)
	if err != nil {
		return nil, c.TransportError(ctx, r.Op, err, false)
	}
	if r.Body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("User-Agent", c.options.UserAgent)
	for name, values := range r.Header {
		req.Header[name] = values
	}
	a, err := c.http.Do(req)
	if err != nil {
		return nil, c.TransportError(ctx, r.Op, err, connected.Load() && !unwritten.Load())
	}
	return a, nil
}

// TransportError describes a failed request, or a failed WebSocket. The text of err is redacted and
// loses its URL.
func (c *Client) TransportError(ctx context.Context, op string, err error, maybeSent bool) *TransportError {
	e := &TransportError{Op: op, MaybeSent: maybeSent, Cause: ctx.Err()}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		e.Reason = "request timed out"
	case ctx.Err() != nil:
		e.Reason = "request cancelled"
	default:
		e.Reason = c.ErrorText(err)
	}
	return e
}

// NotAPI describes a response that is not from the API, such as a proxy's.
func (c *Client) NotAPI(op string, r Response, maybeSent bool) *TransportError {
	reason := fmt.Sprintf("response is not from %s (%s): %s", c.options.API, r.status(), c.Redact(r.Body))
	return &TransportError{Op: op, Reason: reason, MaybeSent: maybeSent, RetryAfter: r.RetryAfter()}
}

// Refuse returns a refusal with a response's status.
func (c *Client) Refuse(op string, r Response) *Refusal {
	return &Refusal{Op: op, Platform: c.options.Platform, Status: r.Status, RetryAfter: r.RetryAfter()}
}

// ErrorText returns the text of an error without a URL and without secrets.
func (c *Client) ErrorText(err error) string {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return c.Redact([]byte(err.Error()))
}

// Redact returns the beginning of foreign text as one line without secrets.
func (c *Client) Redact(raw []byte) string { return Quote(raw, c.options.Secrets) }

// Quote returns the beginning of foreign text as one line without secrets.
func Quote(raw []byte, secrets []string) string {
	var pairs []string
	for _, s := range secrets {
		if s != "" {
			pairs = append(pairs, s, "(token)")
		}
	}
	text := strings.ToValidUTF8(string(raw[:min(len(raw), maxScan)]), "\uFFFD")
	text = strings.Join(strings.Fields(strings.NewReplacer(pairs...).Replace(text)), " ")
	if len(text) <= maxQuote {
		return text
	}
	end := maxQuote
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}
