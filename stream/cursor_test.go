package stream_test

import (
	"strings"
	"testing"

	"mailroom"
	"mailroom/stream"
)

func TestCursorRoundTrips(t *testing.T) {
	for s, want := range map[string]stream.Cursor{
		"0":                   {},
		"17":                  {Seq: 17},
		"17:0":                {Seq: 17},
		"17:5":                {Seq: 17, Bytes: 5},
		"9223372036854775807": {Seq: 1<<63 - 1},
	} {
		got, err := stream.ParseCursor(s)
		if err != nil || got != want {
			t.Errorf("ParseCursor(%q) = %v, %v; want %v", s, got, err, want)
		}
		again, err := stream.ParseCursor(got.String())
		if err != nil || again != want {
			t.Errorf("ParseCursor(%q) = %v, %v; want %v", got.String(), again, err, want)
		}
	}
}

func TestAnInvalidCursorIsRefused(t *testing.T) {
	for _, s := range []string{
		"", ":", "1:", ":1", "-1", "+1", "1:-1", "1:+1", "1_0", "0x1", " 1", "1 ", "1:2:3", "one",
		"9223372036854775808", "1:99999999999999999999", strings.Repeat("9", 1000),
	} {
		got, err := stream.ParseCursor(s)
		if mailroom.CodeOf(err) != mailroom.CodeInvalid {
			t.Errorf("ParseCursor(%q) = %v, %v; want an error of code invalid", s, got, err)
		} else if len(err.Error()) > 200 {
			t.Errorf("the error for %.20q… has %d bytes", s, len(err.Error()))
		}
	}
}

func FuzzCursor(f *testing.F) {
	for _, s := range []string{"", "0", "7:3", "-1:9", "1:2:3", "٣"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := stream.ParseCursor(s)
		if err != nil {
			return
		}
		if c.Seq < 0 || c.Bytes < 0 {
			t.Errorf("ParseCursor(%q) = %v, which is negative", s, c)
		}
		if again, err := stream.ParseCursor(c.String()); err != nil || again != c {
			t.Errorf("ParseCursor(%q) = %v, %v; want %v", c.String(), again, err, c)
		}
	})
}
