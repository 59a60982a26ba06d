package postgres

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mailroom/internal/pgtest"
)

// authority signs certificates. File is its own one.
type authority struct {
	file string
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func template(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := template(name)
	c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{file: filepath.Join(t.TempDir(), name+".pem"), key: key}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(a.file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return a
}

// sign returns a certificate for a host and its key, in PEM.
func (a *authority) sign(t *testing.T, host string) (certificate, key []byte) {
	t.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := template(host)
	c.DNSNames = []string{host}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, &own.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
}

// otherMachine resolves to loopback, but is not a name of it for the store, which requires what it
// requires of other machines.
const otherMachine = "LOCALHOST"

func TestACertificateThatIsNotValidForTheHostIsRefused(t *testing.T) {
	t.Parallel()
	ours, foreign := newAuthority(t, "ours"), newAuthority(t, "foreign")
	certificate, key := ours.sign(t, "localhost")
	c := pgtest.Secure(t, certificate, key)
	address := func(host, more string) string {
		return fmt.Sprintf("postgres://pgtest@%s:%d/postgres?%s", host, c.Port(), more)
	}
	for _, x := range []struct{ name, url, refusal string }{
		{"by default", address(otherMachine, "sslrootcert="+ours.file), ""},
		{"required at loopback", address("localhost", "sslmode=verify-full&sslrootcert="+ours.file), ""},
		{"an authority that is not trusted", address(otherMachine, ""), "certificate signed by unknown authority"},
		{"another authority", address(otherMachine, "sslrootcert="+foreign.file), "certificate signed by unknown authority"},
		{"another host", address("127.0.0.1", "sslmode=verify-full&sslrootcert="+ours.file), "cannot validate certificate for 127.0.0.1"},
		{"no file", address(otherMachine, "sslrootcert=/missing.pem"), "unable to read CA file"},
	} {
		s, err := Open(t.Context(), Options{URL: x.url, Schema: "tls"})
		if (err == nil) != (x.refusal == "") || err != nil && !strings.Contains(err.Error(), x.refusal) {
			t.Errorf("%s: got error %v, want %q", x.name, err, x.refusal)
		}
		if err != nil {
			continue
		}
		var plain int64
		if err := s.writer.send(t.Context(),
			trip{{text: "SELECT count(*) FROM pg_stat_ssl WHERE pid = pg_backend_pid() AND NOT ssl",
				each: func(c *columns) error {
					plain = c.Int64()
					return nil
				}}}); err != nil || plain != 0 {
			t.Errorf("%s: the connection is without TLS: %v", x.name, err)
		}
		closeStore(t, s)
	}
}

// A server that offers no TLS, or a machine between, gets neither the password nor the name of the role.
func TestAServerWithoutTLSGetsNoPassword(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	received := make(chan []byte, 1)
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			received <- []byte(err.Error())
			return
		}
		defer conn.Close()
		request := make([]byte, 8)
		// SSLRequest
		if _, err := io.ReadFull(conn, request); err != nil || binary.BigEndian.Uint32(request[4:]) != 80877103 {
			received <- request
			return
		}
		if _, err := conn.Write([]byte("N")); err != nil {
			received <- []byte(err.Error())
			return
		}
		more, _ := io.ReadAll(conn) // until the store closes the connection
		received <- more
	}()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	s, err := Open(t.Context(), Options{URL: "postgres://app:secret@" + otherMachine + ":" + port + "/postgres"})
	if err == nil {
		closeStore(t, s)
	}
	if err == nil || !strings.Contains(err.Error(), "refused TLS") || strings.Contains(err.Error(), "secret") {
		t.Errorf("got error %v, want one that says that the server refused TLS", err)
	}
	if err := ln.Close(); err != nil {
		t.Error(err)
	}
	if got := <-received; len(got) > 0 {
		t.Errorf("the server received %q in plain text", got)
	}
}
