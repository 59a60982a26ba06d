package command

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"
)

// explainNetworkError says why a server gave no answer, without the text of the system, and what to do about it. It
// returns "" for an error that it does not know.
func (c *Console) explainNetworkError(err error) (message, hint string) {
	address := "check the address " + c.Server
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		if dns.IsNotFound {
			return "no machine has the name " + dns.Name, address
		}
		return "the name " + dns.Name + " cannot be looked up now", "check the network of this machine"
	}
	if message, hint := c.explainTLSError(err); message != "" {
		return message, hint
	}
	timeout, _ := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED) && c.ownServer():
		return "no server at " + c.Server, "start one with `" + c.CommandLine("serve") + "`"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "no server at " + c.Server, "start it on that machine, or " + address
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return "the network has no way to " + c.Server, "check the network of this machine"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return c.Server + " closed the connection without an answer", "try again; if it stays so, " + address
	case timeout != nil && timeout.Timeout():
		return c.Server + " did not answer in time", "try again; if it stays so, check the server and the network"
	}
	return "", ""
}

// ownServer reports whether the server is on this machine, so that a user can start it.
func (c *Console) ownServer() bool {
	u, err := url.Parse(c.Server)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return ip.IsLoopback() || u.Hostname() == "localhost"
}

// explainTLSError is explainNetworkError for a connection with TLS.
func (c *Console) explainTLSError(err error) (message, hint string) {
	if errors.Is(err, http.ErrSchemeMismatch) {
		return c.Server + " speaks HTTP without TLS", "use an address that begins with http://"
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return c.Server + " does not speak TLS", "use an address that begins with http://, or check the port"
	}
	trust := "if this is the right server, set MAILROOM_CA to a file with its certificate or its CA's"
	if host, ok := errors.AsType[x509.HostnameError](err); ok {
		return "the certificate of " + c.Server + " is not for the name " + host.Host, "use a name that it is for"
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return "the certificate of " + c.Server + " has expired or is not valid yet",
			"renew it, or check the clock of this machine"
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok && c.Data == "" {
		return "this machine does not trust the certificate of " + c.Server, trust
	}
	return "", ""
}
