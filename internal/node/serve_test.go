package node

import (
	"bytes"
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mailroom/internal/config"
	"mailroom/internal/console"
	"mailroom/internal/datadir"
)

func TestAddressThatCommandsUse(t *testing.T) {
	at := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1234}
	for listen, want := range map[string]string{ // with TLS the same, but for the scheme
		"127.0.0.1:0": "http://127.0.0.1:1234", "localhost:0": "http://localhost:1234",
		":0": "http://127.0.0.1:1234", "0.0.0.0:0": "http://127.0.0.1:1234", "[::]:0": "http://[::1]:1234", "10.0.0.1:1234": "http://10.0.0.1:1234",
	} {
		if got := address(at, &config.Config{Listen: listen}); got != want {
			t.Errorf("listening on %s: %s, want %s", listen, got, want)
		}
		want = strings.Replace(want, "http", "https", 1)
		if got := address(at, &config.Config{Listen: listen, TLSCert: "cert.pem"}); got != want {
			t.Errorf("listening on %s: %s, want %s", listen, got, want)
		}
	}
}

func TestAServerThatKeepsEndingWaitsBeforeItGoesOn(t *testing.T) {
	dir := datadir.Dir(t.TempDir())
	held, err := dir.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var talk bytes.Buffer
		con := &console.Console{Stderr: &talk}
		for range 5 {
			if err := waitRestartBackoff(t.Context(), con, held); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		if err := waitRestartBackoff(t.Context(), con, held); err != nil || time.Since(began) != 10*time.Second || !strings.Contains(talk.String(), "starting in 10s") {
			t.Errorf("it waits %s, %v: %s", time.Since(began), err, talk.String())
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		began = time.Now()
		if err := waitRestartBackoff(ctx, con, held); err != nil || time.Since(began) != time.Second {
			t.Errorf("told to end, it waits %s, %v", time.Since(began), err)
		}
	})
	if err := held.Release(); err != nil {
		t.Error(err)
	}
}
