package alerttest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"strings"
	"time"
)

// configure writes the configuration of the server
// (https://www.exim.org/exim-html-4.96/doc/html/spec_html/). The user that runs it may start a daemon only as
// an administrator of its own configuration.
func (s *Server) configure() {
	s.t.Helper()
	uid, gid := s.owner.ids()
	_, port, err := net.SplitHostPort(s.Addr)
	_, tlsPort, err2 := net.SplitHostPort(s.TLSAddr)
	if err := errors.Join(err, err2); err != nil {
		s.t.Fatal(err)
	}
	advertise, condition := "*", "${if def:tls_in_cipher}"
	if s.options.NoTLS {
		advertise, condition = "", "true"
	}
	authenticator := "PLAIN\n  server_prompts = :\n  server_condition = ${if and{{eq{$auth2}{" + User + "}}{eq{$auth3}{" +
		Password + "}}}}"
	if s.options.Login {
		authenticator = "LOGIN\n  server_prompts = <; Username: ; Password:\n  server_condition = ${if and{{eq{$auth1}{" +
			User + "}}{eq{$auth2}{" + Password + "}}}}"
	}
	text := strings.NewReplacer(
		"DIR", s.dir, "UID", fmt.Sprint(uid), "GID", fmt.Sprint(gid), "TLSPORT", tlsPort, "PORT", port,
		"ADVERTISE", advertise, "CONDITION", condition, "AUTHENTICATOR", authenticator, "DOMAIN", Domain, "REFUSED",
		RefusedSubject,
	).Replace(configuration)
	if err := os.WriteFile(s.path("exim.conf"), []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

const configuration = `exim_user = UID
exim_group = GID
admin_groups = GID
deliver_drop_privilege = true
primary_hostname = mail.DOMAIN
spool_directory = DIR/spool
log_file_path = DIR/%slog
local_interfaces = <; 127.0.0.1
daemon_smtp_ports = <; PORT ; TLSPORT
daemon_startup_retries = 0
tls_on_connect_ports = TLSPORT
tls_advertise_hosts = ADVERTISE
tls_certificate = DIR/cert.pem
tls_privatekey = DIR/key.pem
keep_environment =
host_lookup =
rfc1413_hosts =
check_spool_space = 0
check_spool_inodes = 0
acl_smtp_rcpt = rcpt
acl_smtp_data = data

begin acl
rcpt:
  deny !authenticated = *
       message = authentication required
  defer local_parts = busy
        message = mailbox busy, try later
  accept domains = DOMAIN
         local_parts = ops : oncall
  deny message = unknown user
data:
  deny condition = ${if match{$rh_subject:}{REFUSED}}
       message = content refused
  accept

begin routers
all:
  driver = accept
  local_parts = ops : oncall
  transport = store

begin transports
store:
  driver = appendfile
  directory = DIR/mail/$local_part_data
  maildir_format
  create_directory

begin authenticators
only:
  driver = plaintext
  server_set_id = account
  server_advertise_condition = CONDITION
  public_name = AUTHENTICATOR
`

// makeCertificate writes a certificate of the server, signed by its own key.
func (s *Server) makeCertificate() {
	s.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		s.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		s.t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	s.Roots, s.CertFile = x509.NewCertPool(), s.path("cert.pem")
	s.Roots.AppendCertsFromPEM(cert)
	err = errors.Join(
		os.WriteFile(s.CertFile, cert, 0o644),
		os.WriteFile(s.path("key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600),
		s.owner.give(s.path("key.pem")),
	)
	if err != nil {
		s.t.Fatal(err)
	}
}
