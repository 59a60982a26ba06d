package datadir

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestTheLastThreeCrashReportsAreKept(t *testing.T) {
	dir := Dir(t.TempDir())
	h := &Lock{Dir: dir}
	report := func() []byte {
		t.Helper()
		report, err := h.CrashReport()
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	at := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	var last string
	for n := range 5 {
		f, err := h.CrashOutput()
		if err != nil {
			t.Fatal(err)
		}
		if got := report(); len(got) != 0 {
			t.Errorf("crash report of a running server: %.20q, want none", got)
		}
		long := bytes.Repeat([]byte{byte('a' + n)}, maxCrashReportSize+1)
		if _, err := f.Write(long); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(f.Name(), at, at.Add(time.Duration(n)*time.Second)); err != nil {
			t.Fatal(err)
		}
		for range 2 { // reading does not change it
			if got := report(); !bytes.Equal(got, long[:maxCrashReportSize]) {
				t.Errorf("report %d has %d bytes, want the first %d", n, len(got), maxCrashReportSize)
			}
		}
		if last, err = h.KeepCrash(); err != nil {
			t.Fatal(err)
		}
	}
	if want := dir.path("crash-20261122T100004.000000000Z.txt"); last != want {
		t.Errorf("the last report is %s, want %s", last, want)
	}
	if got := report(); len(got) != 0 {
		t.Errorf("crash report after KeepCrash: %.20q, want none", got)
	}
	kept, err := filepath.Glob(dir.path("*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(kept) != 3 || kept[2] != last {
		t.Errorf("kept %q, want the last three reports", kept)
	}
	for _, path := range kept {
		if info, err := os.Stat(path); err != nil || info.Size() != maxCrashReportSize || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v; want %d bytes with mode 0600", path, info, err, maxCrashReportSize)
		}
	}
}

func TestReleaseRemovesAnEmptyCrashReportOnly(t *testing.T) {
	for report, kept := range map[string]bool{"": false, "panic: broken\n": true} {
		dir := Dir(t.TempDir())
		h := acquire(t, dir)
		if err := h.PrepareStore(); err != nil {
			t.Fatal(err)
		}
		f, err := h.CrashOutput()
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.WriteString(report)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		release(t, h)
		if text, err := os.ReadFile(f.Name()); err == nil != kept || string(text) != report {
			t.Errorf("report %q after Release: %q, %v; want it kept: %t", report, text, err, kept)
		}
	}
}
