package command

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"

	"mailroom"
)

// reportNetwork returns what a command prints for an error of a request to a server.
func reportNetwork(t *testing.T, server string, err error) string {
	t.Helper()
	var out strings.Builder
	con := &Console{Stderr: &out, Server: server}
	failed := &url.Error{Op: "Get", URL: server + "/v1/threads?limit=50", Err: err}
	code := con.ReportError(t.Context(), &mailroom.Error{Code: mailroom.CodeUnavailable,
		Message: "no answer from the server at " + server, Cause: failed})
	if code != ExitServer {
		t.Errorf("%v: exit code %d, want %d", err, code, ExitServer)
	}
	return strings.TrimSuffix(out.String(), "\n")
}

func TestNetworkErrorsAreInPlainWords(t *testing.T) {
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	const far = "https://mail.example.org"
	for _, c := range []struct {
		server string
		err    error
		want   string
	}{
		{far, dial(&net.DNSError{Err: "no such host", Name: "mail.example.org", Server: "10.0.0.53", IsNotFound: true}),
			"no machine has the name mail.example.org: check the address https://mail.example.org"},
		{far, dial(&net.DNSError{Err: "i/o timeout", Name: "mail.example.org", IsTimeout: true}),
			"the name mail.example.org cannot be looked up now: check the network of this machine"},
		{far, dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)),
			"no server at https://mail.example.org: start it on that machine, or check the address " + far},
		{"http://127.0.0.1:8420", dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)),
			"no server at http://127.0.0.1:8420: start one with `mailroom serve`"},
		{far, dial(os.NewSyscallError("connect", syscall.ENETUNREACH)),
			"the network has no way to https://mail.example.org: check the network of this machine"},
		{far, dial(os.ErrDeadlineExceeded),
			far + " did not answer in time: try again; if it stays so, check the server and the network"},
		{far, io.EOF, far + " closed the connection without an answer: try again; if it stays so, check the address " + far},
		{far, http.ErrSchemeMismatch,
			"https://mail.example.org speaks HTTP without TLS: use an address that begins with http://"},
		{far, &tls.CertificateVerificationError{Err: x509.HostnameError{Certificate: &x509.Certificate{}, Host: "mail"}},
			"the certificate of https://mail.example.org is not for the name mail: use a name that it is for"},
		{far, &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired}},
			"the certificate of " + far + " has expired or is not valid yet: renew it, or check the clock of this machine"},
		{far, errors.New("something new"), "no answer from the server at https://mail.example.org: Get " +
			`"https://mail.example.org/v1/threads?limit=50": something new`},
	} {
		if got := reportNetwork(t, c.server, c.err); got != "mailroom: "+c.want {
			t.Errorf("%v:\ngot  %s\nwant mailroom: %s", c.err, got, c.want)
		}
	}
}

// The errors are those of a real client and a real server.
func TestErrorsOfTLSAreInPlainWords(t *testing.T) {
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = nil
	secure.StartTLS()
	defer secure.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	for address, want := range map[string]string{
		secure.URL: "does not trust the certificate of " + secure.URL + ": if this is the right server, set ",
		strings.Replace(plain.URL, "http:", "https:", 1): "speaks HTTP without TLS: use an address that begins with http",
	} {
		_, err := http.Get(address)
		if err == nil {
			t.Fatalf("%s answers", address)
		}
		if got := reportNetwork(t, address, fmt.Errorf("%w", err)); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", address, got, want)
		}
	}
}
