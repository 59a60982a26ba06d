package node

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mailroom/app/command"
	"mailroom/app/datadir"
)

func TestAServerThatKeepsExitingWaitsBeforeItStarts(t *testing.T) {
	dir := datadir.Dir(t.TempDir())
	held, err := dir.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var talk bytes.Buffer
		con := &command.Console{Stderr: &talk}
		for range 5 {
			if err := waitRestartBackoff(t.Context(), con, held); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		if err := waitRestartBackoff(t.Context(), con, held); err != nil || time.Since(began) != 10*time.Second ||
			!strings.Contains(talk.String(), "starting in 10s") {
			t.Errorf("pause %s, %v: %s", time.Since(began), err, talk.String())
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		began = time.Now()
		if err := waitRestartBackoff(ctx, con, held); err != nil || time.Since(began) != time.Second {
			t.Errorf("pause after a stop: %s, %v", time.Since(began), err)
		}
	})
	if err := held.Release(); err != nil {
		t.Error(err)
	}
}

func TestAnAddressInUseNamesTheProgramThatHasIt(t *testing.T) {
	mailroom := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/healthz" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		_, _ = io.WriteString(w, `{"status":"ok","version":"v9.8\u001b[7m"}`)
	}))
	defer mailroom.Close()
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	for _, c := range []struct {
		server *httptest.Server
		want   string
	}{
		{mailroom, " is in use by another Mailroom server, of version v9.8⟦U+001B⟧[7m"},
		{web, " is in use by another program"},
	} {
		address := c.server.Listener.Addr().String()
		_, err := net.Listen("tcp", address) // archtest: the port is in use.
		if err == nil {
			t.Fatalf("%s is free", address)
		}
		err = explainListenError(t.Context(), address, err)
		if got := err.Error(); got != address+c.want {
			t.Errorf("got %q, want %q", got, address+c.want)
		}
	}
}
