package node

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mailroom/internal/console"
	"mailroom/internal/datadir"
)

func TestAServerThatKeepsExitingWaitsBeforeItStarts(t *testing.T) {
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
