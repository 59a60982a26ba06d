package sqlite

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mailroom"
)

func TestADamagedBodyIsNotRead(t *testing.T) {
	run := mailroom.Run{
		ID: "r", Thread: "t", CreatedAt: time.UnixMicro(1).UTC(), Lineage: []string{"", ""}, Metadata: map[string]string{"k": ""},
		Steers: []mailroom.Steer{{Own: &mailroom.Run{ID: "own"}}}, Progress: 0.5, Flushed: true,
		ClaimEnds: time.UnixMicro(2).UTC(), StopGrace: time.Second,
	}
	body := string(pack(nil, &run, (*packer).run))
	var back mailroom.Run
	if err := unpack(body, &back, (*packer).run); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(run, back); diff != "" {
		t.Errorf("unpacked (-want +got):\n%s", diff)
	}
	if err := unpack(body+"\x01", new(mailroom.Run), (*packer).run); err == nil {
		t.Error("a body with trailing bytes was accepted")
	}
	for n := range len(body) {
		// A body cut between two fields is a valid body of a different run.
		var cut mailroom.Run
		if err := unpack(body[:n], &cut, (*packer).run); err == nil && cut.StopGrace > 0 {
			t.Errorf("the first %d of %d bytes were accepted as the whole", n, len(body))
		}
	}
}

func TestZeroFieldsTakeNoSpace(t *testing.T) {
	if got := len(pack(nil, &mailroom.Run{}, (*packer).run)); got != 0 {
		t.Errorf("a run of zeros takes %d bytes, want none", got)
	}
	if got := len(pack(nil, &mailroom.Run{ID: "1234"}, (*packer).run)); got != 5 {
		t.Errorf("a run with an id of 4 bytes takes %d bytes, want 5", got)
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add(pack(nil, &mailroom.Run{ID: "r", Lineage: []string{"a", ""}, Steers: []mailroom.Steer{{Own: &mailroom.Run{ID: "own"}}}}, (*packer).run))
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"))
	f.Fuzz(func(t *testing.T, body []byte) {
		var first, second mailroom.Run
		if unpack(string(body), &first, (*packer).run) != nil {
			return
		}
		if err := unpack(string(pack(nil, &first, (*packer).run)), &second, (*packer).run); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first, second, cmpopts.EquateNaNs()); diff != "" {
			t.Errorf("packed again (-first +second):\n%s", diff)
		}
	})
}
