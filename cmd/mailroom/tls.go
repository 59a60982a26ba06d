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

	"mailroom/cmd/mailroom/internal/config"
	"mailroom/internal/recovery"
)

// loadTLS refuses an address that others could reach without anything that
// encrypts. It returns the absolute path of the certificate and what serves it,
// "" and nil without TLS.
func loadTLS(c *config.Config, log *slog.Logger) (file string, secure *tls.Config, err error) {
	if !c.TLS() {
		if c.Exposed() && !c.BehindProxy {
			return "", nil, exitErrorf(exitUsage,
				"set tls_cert and tls_key in the configuration, or behind_proxy = true if a proxy in front of it encrypts",
				"other machines could reach %s, and nothing would encrypt what is sent", c.Listen)
		}
		return "", nil, nil
	}
	if file, err = filepath.Abs(c.TLSCert); err != nil {
		return "", nil, fmt.Errorf("find the certificate %s: %w", c.TLSCert, err)
	}
	renewed := &certificate{file: file, key: c.TLSKey, log: log}
	if err := renewed.reload(); err != nil {
		return "", nil, exitErrorf(exitUsage, "see tls_cert and tls_key in the configuration", "%w", err)
	}
	return file, &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: renewed.getCertificate}, nil
}

// certificate is read from its files again when they change, so that one that is
// renewed is used from the next connection on.
type certificate struct {
	// set by guard
	file, key string
	log       *slog.Logger

	mu      sync.Mutex
	now     *tls.Certificate // owned by mu
	changed [2]time.Time     // owned by mu: of the files when they were last looked at
}

// getCertificate keeps to the certificate it has while the new files cannot be read: they
// are written one after the other.
func (c *certificate) getCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if err := c.reload(); err != nil {
		c.log.Warn("the certificate was not renewed", "error", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now, nil
}

// reload reads files that have changed, once.
func (c *certificate) reload() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed, err := c.modTimes()
	if c.now != nil && changed == c.changed {
		return nil // also if they are still missing, which was said
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

// modTimes returns when the files were changed, a zero time for one that is missing.
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

// pinnedClient trusts exactly the certificate in file, whatever its names and its
// issuer: a server's own folder says which one it has. "" trusts as usual.
func pinnedClient(file string) *http.Client {
	if file == "" {
		return &http.Client{}
	}
	return clientWithTLS(&tls.Config{
		InsecureSkipVerify: true, // VerifyConnection is stricter
		VerifyConnection: func(state tls.ConnectionState) (err error) {
			defer recovery.Error(nil, "the check of a certificate", &err) // a transport dials on goroutines of its own
			data, err := os.ReadFile(file)                                // again for each connection: it may have been renewed
			if err != nil {
				return fmt.Errorf("read the server's certificate: %w", err)
			}
			for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
				if block.Type == "CERTIFICATE" {
					if len(state.PeerCertificates) > 0 && bytes.Equal(block.Bytes, state.PeerCertificates[0].Raw) {
						return nil
					}
					break // the first is the server's own
				}
			}
			return fmt.Errorf("the server at this address has another certificate than %s", file)
		},
	})
}

// clientTrusting trusts the authorities in file beside those of the system. "" trusts
// as usual.
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
		roots = x509.NewCertPool() // a system without any
	}
	if !roots.AppendCertsFromPEM(data) {
		return nil, exitErrorf(exitUsage, "set MAILROOM_CA to a file with certificates in PEM form", "there is no certificate in %s", file)
	}
	return clientWithTLS(&tls.Config{RootCAs: roots}), nil
}

func clientWithTLS(secure *tls.Config) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone() // the standard library's own
	transport.TLSClientConfig = secure
	return &http.Client{Transport: transport}
}
