package endpoint

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"

	"mailroom/app/command"
	"mailroom/internal/recovery"
	"mailroom/internal/setting"
)

// pinnedClient returns a client that trusts exactly the certificate in file, regardless of its
// names and issuer. With an empty file it returns a default client.
func pinnedClient(file string) *http.Client {
	if file == "" {
		return &http.Client{}
	}
	return clientWithTLS(&tls.Config{
		InsecureSkipVerify: true, // VerifyConnection is stricter
		VerifyConnection: func(state tls.ConnectionState) (err error) {
			defer recovery.Error(nil, "certificate check", &err) // runs on the transport's goroutine
			data, err := setting.ReadFile(file)                  // for each connection: the file may have been renewed
			if err != nil {
				return fmt.Errorf("read the server's certificate: %w", err)
			}
			for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
				if block.Type == "CERTIFICATE" {
					if len(state.PeerCertificates) > 0 && bytes.Equal(block.Bytes, state.PeerCertificates[0].Raw) {
						return nil
					}
					break // compares only the first certificate of the file, which is the server's own
				}
			}
			return fmt.Errorf("the server's certificate is not the one in %s", file)
		},
	})
}

// clientTrusting returns a client that trusts the CA certificates in file and of the system. With
// an empty file it returns a default client.
func clientTrusting(file string) (*http.Client, error) {
	if file == "" {
		return &http.Client{}, nil
	}
	data, err := setting.ReadFile(file)
	if err != nil {
		return nil, command.Errorf(command.ExitUsage, "set MAILROOM_CA to a file with certificates", "%w", err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool() // the system has no certificate pool
	}
	if !roots.AppendCertsFromPEM(data) {
		return nil, command.Errorf(command.ExitUsage, "set MAILROOM_CA to a file with certificates in PEM form",
			"no certificate in %s", file)
	}
	return clientWithTLS(&tls.Config{RootCAs: roots}), nil
}

func clientWithTLS(secure *tls.Config) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone() // the standard library's own
	transport.TLSClientConfig = secure
	return &http.Client{Transport: transport}
}
