package node

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"mailroom/app/command"
	"mailroom/app/config"
	"mailroom/internal/setting"
)

// loadTLS returns the absolute path of the certificate and the TLS configuration, or "" and
// nil without TLS. It refuses an unencrypted address that other machines can reach.
func loadTLS(c *config.Config, log *slog.Logger) (file string, secure *tls.Config, err error) {
	if !c.TLS() {
		if c.Exposed() && !c.BehindProxy {
			return "", nil, command.Errorf(command.ExitUsage,
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
		return "", nil, command.Errorf(command.ExitUsage, "check tls_cert and tls_key in the configuration", "%w", err)
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
		c.log.Warn("certificate not reloaded; the previous one stays in use", "error", err)
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
	got, err := loadKeyPair(c.file, c.key)
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

// loadKeyPair is [tls.LoadX509KeyPair] for files that [setting.ReadFile] accepts, because a pipe could block it
// forever.
func loadKeyPair(file, key string) (tls.Certificate, error) {
	chain, err := setting.ReadFile(file)
	if err != nil {
		return tls.Certificate{}, err
	}
	secret, err := setting.ReadFile(key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(chain, secret)
}
