package main

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"aead.dev/minisign"
)

// checksums is the file with the SHA-256 of each file. Its signature covers them all.
const checksums = "checksums.txt"

// readKey returns the key of minisign in MAILROOM_SIGNING_KEY, which is the text or the name of a file, or nil if it is
// empty.
func (s settings) readKey() (*minisign.PrivateKey, error) {
	if s.key == "" {
		return nil, nil
	}
	text := []byte(s.key)
	if !strings.HasPrefix(s.key, "untrusted comment:") {
		var err error
		if text, err = os.ReadFile(s.key); err != nil {
			return nil, errors.New("MAILROOM_SIGNING_KEY is neither a secret key of minisign nor the name of a file with one")
		}
	}
	var key minisign.PrivateKey
	var err error
	if minisign.IsEncrypted(text) {
		key, err = minisign.DecryptKey(s.password, text)
	} else {
		err = key.UnmarshalText(text)
	}
	if err != nil {
		return nil, fmt.Errorf("key in MAILROOM_SIGNING_KEY, with the password in MAILROOM_SIGNING_PASSWORD: %w", err)
	}
	return &key, nil
}

// sums writes the checksums of all files, signs them if there is a key, and prints them.
func (r *release) sums(key *minisign.PrivateKey) error {
	files, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, f := range files {
		sum, size, err := sumOf(filepath.Join(r.out, f.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%x  %s\n", sum, f.Name())
		fmt.Fprintf(r.log, "%x %11d %s\n", sum[:8], size, f.Name())
	}
	write := func(name, text string) error {
		return r.create(name, func(w io.Writer) error { _, err := io.WriteString(w, text); return err })
	}
	if err := write(checksums, text.String()); err != nil {
		return err
	}
	if key == nil {
		fmt.Fprintln(r.log, "The release is not signed: MAILROOM_SIGNING_KEY has no key of minisign.")
	} else {
		signature := minisign.SignWithComments(*key, []byte(text.String()),
			"mailroom "+r.version+" "+r.commit, "signature of "+checksums)
		if err := write(checksums+".minisig", string(signature)); err != nil {
			return err
		}
		public, err := publicKey(*key)
		if err != nil {
			return err
		}
		fmt.Fprintf(r.log, "%s is signed; check it with minisign -Vm %[1]s -P %s\n", checksums, public)
	}
	all, _, err := sumOf(filepath.Join(r.out, checksums))
	if err != nil {
		return err
	}
	fmt.Fprintf(r.log, "The release has the digest %x.\n", all)
	return nil
}

// publicKey returns the text of a key's public part, without a comment.
func publicKey(key minisign.PrivateKey) (string, error) {
	public, ok := key.Public().(minisign.PublicKey)
	if !ok {
		return "", errors.New("the key has no public part")
	}
	text, err := public.MarshalText()
	if err != nil {
		return "", err
	}
	lines := bufio.NewScanner(strings.NewReader(string(text)))
	last := ""
	for lines.Scan() {
		last = lines.Text()
	}
	return last, lines.Err()
}

// sumOf returns the SHA-256 and the size of a file.
func sumOf(name string) ([]byte, int64, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, 0, err
	}
	h := sha256.New()
	n, err := io.Copy(h, f)
	return h.Sum(nil), n, errors.Join(err, f.Close())
}
