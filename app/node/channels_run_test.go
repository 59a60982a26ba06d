package node

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"mailroom/channel"
)

func TestAChannelIsRetriedWhenItsTokenFileChanges(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	s := &secretFile{file: file}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i, step := range []struct {
		do   func()
		want bool
	}{
		{func() {}, false}, {func() { write("a") }, true}, {func() {}, false}, {func() { write("ab") }, true},
		{func() { _ = os.Remove(file) }, true}, {func() {}, false}, // the write above has checked that it exists
	} {
		step.do()
		if got := s.changed(); got != step.want {
			t.Errorf("look %d: %v, want %v", i, got, step.want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		c := channel.New(channel.Options{Name: "c", Connect: channel.Broken(errors.New("no token")),
			Ledger: entrylessLedger{}})
		s := &secretFile{file: file, channel: c}
		all := channelSet{c}
		done := make(chan error, 1)
		ctx, stop := context.WithCancel(t.Context())
		go func() {
			done <- all.run(ctx, func(ctx context.Context, c *channel.Runner) { c.Run(ctx) }, []*secretFile{s}, false)
		}()
		<-time.After(time.Minute + secretCheckInterval/2) // between two checks
		if n := c.State().Adapter; n != 1 {
			t.Errorf("%d connection attempts, want 1", n)
		}
		write("c")
		<-time.After(secretCheckInterval)
		synctest.Wait()
		if n := c.State().Adapter; n != 2 {
			t.Errorf("%d connection attempts after the change", n)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// entrylessLedger is a ledger that discards entries.
type entrylessLedger struct{ channel.Ledger }

func (entrylessLedger) AppendEntry(context.Context, string, string, json.RawMessage) (int64, error) {
	return 0, nil
}
