package machinetest

import (
	"context"
	"encoding/binary"
	"net"
	"testing"
	"time"
)

// Resolver returns a resolver that resolves every name to ip.
func Resolver(t *testing.T, ip [4]byte) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() { // ends with the socket
		defer close(served)
		in := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(in)
			if err != nil {
				return
			}
			if n > 12 {
				_, _ = conn.WriteTo(answer(in[:n], ip), from) // a lost datagram: the resolver retries
			}
		}
	}()
	t.Cleanup(func() {
		_ = conn.Close() // a failed close loses nothing, because nothing was written
		<-served
	})
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{Timeout: 5 * time.Minute}).DialContext(ctx, "udp4", conn.LocalAddr().String())
	}}
}

// answer returns the DNS message (RFC 1035, section 4) that answers a question for an
// IPv4 address, and an empty answer to other questions.
func answer(question []byte, ip [4]byte) []byte {
	end := 12
	for question[end] != 0 {
		end += int(question[end]) + 1
	}
	end += 5 // the end of the name, type and class
	out := append([]byte(nil), question[:end]...)
	out[2], out[3] = 0x81, 0x80 // an answer, without an error
	binary.BigEndian.PutUint16(out[6:], 0)
	binary.BigEndian.PutUint32(out[8:], 0)
	if binary.BigEndian.Uint16(question[end-4:]) != 1 {
		return out
	}
	binary.BigEndian.PutUint16(out[6:], 1)
	out = append(out, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
	return append(out, ip[:]...)
}
