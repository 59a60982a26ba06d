package irctest

import (
	"net"
	"testing"
)

// TestAForeignPortIsNotMistakenForOurs has another listener that accepts connections.
func TestAForeignPortIsNotMistakenForOurs(t *testing.T) {
	other, err := net.Listen("tcp", "127.0.0.1:0") // archtest: it listens until the test ends.
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	s := Start(t)
	s.Kill()
	was := s.Addr
	s.Addr = other.Addr().String()
	if s.start() {
		t.Error("start succeeded on a foreign port")
	}
	s.Addr = was
	s.Up()
	s.Connect("al").Disconnect()
}
