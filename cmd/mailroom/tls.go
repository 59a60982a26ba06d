package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"mailroom/internal/config"
	"mailroom/internal/recovery"
)

// loadTLS returns the absolute path of the certificate and the TLS configuration, or "" and
// nil without TLS. It refuses an unencrypted address that other machines can reach.
func loadTLS(c *config.Config, log *slog.Logger) (file string, secure *tls.Config, err error) {
	if !c.TLS() {
		if c.Exposed() && !c.BehindProxy {
			return "", nil, exitErrorf(exitUsage,
				"set tls_cert and tls_key in the configuration, or behind_proxy = true if a proxy provides TLS",
				"refusing to listen on %s without TLS: other machines can reach it", c.Listen)
		}
		return "", nil, nil
	}
	if file, err = filepath.Abs(c.TLSCert); err != nil {
		return "", nil, fmt.Errorf("find the certificate %s: %w", c.TLSCert, err)
	}
	renewed := &certificate{file: file, key: c.TLSKey, log: log}
	if err := renewed.reload(); err != nil {
		return "", nil, exitErrorf(exitUsage, "check tls_cert and tls_key in the configuration", "%w", err)
	}
	return file, &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: renewed.getCertificate}, nil
}

// certificate reloads its files when they change, so that new connections use a renewed
// certificate.
type certificate struct {
	// set by loadTLS
	file, key string
	log       *slog.Logger

	mu      sync.Mutex
	now     *tls.Certificate // owned by mu
	changed [2]time.Time     // owned by mu: modification times at the last reload
}

// getCertificate returns the current certificate. While changed files cannot be loaded, for
// example between the writes of the two files, it returns the previous one.
func (c *certificate) getCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if err := c.reload(); err != nil {
		c.log.Warn("certificate not reloaded", "error", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now, nil
}

// reload loads the files if they changed since the last call.
func (c *certificate) reload() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed, err := c.modTimes()
	if c.now != nil && changed == c.changed {
		return nil // a file that is still missing was reported before
	}
	c.changed = changed
	if err != nil {
		return fmt.Errorf("read the certificate: %w", err)
	}
	got, err := tls.LoadX509KeyPair(c.file, c.key)
	if err != nil {
		return fmt.Errorf("read the certificate %s with the key %s: %w", c.file, c.key, err)
	}
	c.now = &got
	return nil
}

// modTimes returns the modification times of the files, a zero time for a missing file.
func (c *certificate) modTimes() (changed [2]time.Time, err error) {
	for i, path := range []string{c.file, c.key} {
		info, statErr := os.Stat(path)
		if statErr != nil {
			err = statErr
			continue
		}
		changed[i] = info.ModTime()
	}
	return changed, err
}

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
			data, err := os.ReadFile(file)                       // for each connection, because it may have been renewed
			if err != nil {
				return fmt.Errorf("read the server's certificate: %w", err)
			}
			for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
				if block.Type == "CERTIFICATE" {
					if len(state.PeerCertificates) > 0 && bytes.Equal(block.Bytes, state.PeerCertificates[0].Raw) {
						return nil
					}
					break // the first certificate is the server's own
				}
			}
			return fmt.Errorf("the server's certificate is not the one in %s", file)
		},
	})
}

// clientTrusting returns a client that trusts the CA certificates in file and those of the
// system. With an empty file it returns a default client.
func clientTrusting(file string) (*http.Client, error) {
	if file == "" {
		return &http.Client{}, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, exitErrorf(exitUsage, "set MAILROOM_CA to a file with certificates", "%w", err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool() // the system has no certificate pool
	}
	if !roots.AppendCertsFromPEM(data) {
		return nil, exitErrorf(exitUsage, "set MAILROOM_CA to a file with certificates in PEM form", "no certificate in %s", file)
	}
	return clientWithTLS(&tls.Config{RootCAs: roots}), nil
}

func clientWithTLS(secure *tls.Config) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone() // the standard library's own
	transport.TLSClientConfig = secure
	return &http.Client{Transport: transport}
}
