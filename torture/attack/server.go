package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// target is a server in a child process.
type target struct {
	binary string
	data   string
	cmd    *exec.Cmd
	exited chan struct{}
	url    string
	addr   string
	token  string // token of the attacker: read, submit, decide, work
	other  string // token whose submits are measured
	client *http.Client
	last   int64 // last known peak of the server's memory
	spent  time.Duration
}

const settings = `
log_level = "error"
tls_cert = "cert.pem"
tls_key = "key.pem"
[channels.hook]
kind = "webhook"
agent = "echo"
token_env = "HOOK_SECRET"
`

// start runs a server with TLS on a new data folder.
func start(ctx context.Context, binary string) (t *target, err error) {
	t = &target{binary: binary, exited: make(chan struct{})}
	if t.data, err = os.MkdirTemp("", "attack-*"); err != nil {
		return nil, err
	}
	if err := t.setUp(ctx); err != nil {
		t.stop()
		return nil, err
	}
	return t, nil
}

func (t *target) setUp(ctx context.Context) (err error) {
	if err := certificate(t.data); err != nil {
		return err
	}
	config := strings.NewReplacer("cert.pem", filepath.Join(t.data, "cert.pem"), "key.pem",
		filepath.Join(t.data, "key.pem")).Replace(settings)
	if err := os.WriteFile(filepath.Join(t.data, "mailroom.toml"), []byte(config), 0o600); err != nil {
		return err
	}
	if err := t.launch(ctx); err != nil {
		return err
	}
	t.client = client()
	if t.token, err = t.command(ctx, "token", "create", "mallory", "--scope", "read,submit,decide,work"); err != nil {
		return err
	}
	t.other, err = t.command(ctx, "token", "create", "ann", "--scope", "read,submit")
	return err
}

func (t *target) launch(ctx context.Context) error {
	t.cmd = exec.CommandContext(ctx, t.binary, "serve", "--data", t.data, "--listen", "127.0.0.1:0")
	t.cmd.Env = append(os.Environ(), "HOOK_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	errs, err := t.cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := t.cmd.Start(); err != nil {
		close(t.exited)
		return fmt.Errorf("start %s: %w", t.binary, err)
	}
	ready, said := make(chan string, 1), &bytes.Buffer{}
	go func() { // this goroutine ends with the process; stop waits for its end
		defer close(t.exited)
		lines := bufio.NewScanner(errs)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if said.Len() < 1<<16 {
				fmt.Fprintln(said, lines.Text())
			}
			if _, url, ok := strings.Cut(lines.Text(), "listening on "); ok {
				url, _, _ = strings.Cut(url, ",")
				select {
				case ready <- url:
				default:
				}
			}
		}
		_ = t.cmd.Wait()
		if file := os.Getenv("ATTACK_LOG"); file != "" {
			_ = os.WriteFile(file, said.Bytes(), 0o600)
		}
	}()
	select {
	case t.url = <-ready:
		t.addr = strings.TrimPrefix(t.url, "https://")
		return nil
	case <-t.exited:
		return fmt.Errorf("server exited: %.500s", said)
	case <-time.After(30 * time.Second):
		return errors.New("server is not listening after 30s")
	}
}

func (t *target) command(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, t.binary, append(args, "--data", t.data)...)
	said := &bytes.Buffer{}
	cmd.Stderr = said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %.500s", strings.Join(args, " "), err, said)
	}
	return strings.TrimSpace(string(out)), nil
}

func client() *http.Client {
	return &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
		// the server's own certificate, on loopback
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxIdleConnsPerHost: 64,
	}}
}

// stop kills the server and removes its data.
func (t *target) stop() {
	if t.cmd != nil && t.cmd.Process != nil {
		_ = t.cmd.Process.Kill() // the process may have exited by itself
		<-t.exited
	}
	_ = os.RemoveAll(t.data) // the folder is in the system's folder for temporary files
}

func (t *target) hasExited() bool {
	select {
	case <-t.exited:
		return true
	default:
		return false
	}
}

// cpu returns the user and system time of the server (proc(5), fields 14 and 15 of stat, in ticks
// of 10 ms), or the last known value after it has exited.
func (t *target) cpu() time.Duration {
	if spent, ok := processTime(strconv.Itoa(t.cmd.Process.Pid)); ok {
		t.spent = spent
	}
	return t.spent
}

func processTime(pid string) (spent time.Duration, ok bool) {
	raw, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return 0, false
	}
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	if len(fields) < 13 {
		return 0, false
	}
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond, true
}

// ownTime returns the user and system time of this process.
func ownTime() time.Duration {
	spent, _ := processTime("self") // 0 on a system without /proc
	return spent
}

// peak returns the server's peak resident size, in bytes.
func (t *target) peak() int64 {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(t.cmd.Process.Pid), "status"))
	if err != nil {
		return t.last
	}
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			if n, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64); err == nil {
				t.last = n << 10
			}
		}
	}
	return t.last
}

// probe submits messages one after the other with a token that the attacker does not use, and returns the longest
// wait. It stops after length, or a second after ended is closed.
func probe(
	ctx context.Context, t *target, length time.Duration, ended <-chan error,
) (longest time.Duration, err error) {
	over := make(<-chan time.Time)
	if ended == nil {
		over = time.After(length)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return longest, context.Cause(ctx)
		case <-t.exited:
			return longest, nil
		case err := <-ended:
			if err != nil && ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded) {
				return longest, err
			}
			ended, over = nil, time.After(time.Second)
			continue
		case <-over:
			return longest, nil
		case <-tick.C:
		}
		begin := time.Now()
		status, err := t.request(ctx, t.other, "POST", "/v1/threads/probe-"+strconv.Itoa(n%8)+"/messages",
			strings.NewReader(`{"text":"hello"}`))
		if took := time.Since(begin); took > longest {
			longest = took
		}
		t.peak()
		t.cpu()
		if err == nil && status != http.StatusAccepted && status != http.StatusTooManyRequests &&
			status != http.StatusServiceUnavailable {
			return longest, fmt.Errorf("the submit of another token was answered with %d", status)
		}
	}
}

// request sends one request and reads its response.
func (t *target) request(
	ctx context.Context, token, method, path string, body io.Reader, headers ...string,
) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, method, t.url+path, body)
	if err != nil {
		return 0, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := t.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = res.Body.Close() }()
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}

// dial opens a TLS connection that offers these protocols, by default HTTP/1.1.
func (t *target) dial(ctx context.Context, protocols ...string) (net.Conn, error) {
	if len(protocols) == 0 {
		protocols = []string{"http/1.1"}
	}
	// accepts the server's own certificate, because the connection is on loopback
	d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, NextProtos: protocols}}
	return d.DialContext(ctx, "tcp", t.addr)
}

// certificate writes cert.pem and key.pem for 127.0.0.1.
func certificate(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		return err
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "cert.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600),
		os.WriteFile(filepath.Join(dir, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), 0o600))
}
