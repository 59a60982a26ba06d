package thread_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"mailroom"
	"mailroom/thread"
)

// FuzzBlobName: an accepted name is short text without NUL, and a rejected one is Invalid.
func FuzzBlobName(f *testing.F) {
	for _, name := range []string{"a", "", "dir/ü", "a\x00", "a\n", "\xff", "\u0085", " ", "..",
		strings.Repeat("ü", 128), strings.Repeat("ü", 128) + "x", "\u200b", "%2f"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		clean := name != "" && len(name) <= mailroom.MaxBlobName && utf8.ValidString(name)
		clean = clean && !strings.ContainsRune(name, 0)
		err := thread.CheckBlobName(name)
		if clean != (err == nil) {
			t.Fatalf("%q: got %v, want an error %t", name, err, !clean)
		}
		if err != nil {
			wantCode(t, err, mailroom.CodeInvalid)
		}
		w := newFixture(t)
		w.must(in("", "x"))
		w.mustStart("x")
		step := thread.StepCommit{Number: 1, Claim: w.claim(), Blobs: []thread.BlobChange{{Name: name}}}
		if err := step.Check(); clean != (err == nil) {
			t.Errorf("a step with %q: %v", name, err)
		}
	})
}

func TestAStepNamesEachBlobAndUploadOnce(t *testing.T) {
	change := func(pairs ...string) (list []thread.BlobChange) {
		for i := 0; i < len(pairs); i += 2 {
			list = append(list, thread.BlobChange{Name: pairs[i], Upload: pairs[i+1]})
		}
		return list
	}
	many := make([]thread.BlobChange, 101)
	for i := range many {
		many[i].Name = strings.Repeat("x", i+1)
	}
	for _, tc := range []struct {
		name    string
		changes []thread.BlobChange
		want    mailroom.Code
	}{
		{"two deletions", change("a", "", "b", ""), ""},
		{"two contents", change("a", "1", "b", "2"), ""},
		{"a name twice", change("a", "1", "a", "2"), mailroom.CodeInvalid},
		{"an upload twice", change("a", "1", "b", "1"), mailroom.CodeInvalid},
		{"no name", change("", "1"), mailroom.CodeInvalid},
		{"as many as there may be", many[:100], ""},
		{"too many", many, mailroom.CodeInvalid},
	} {
		step := thread.StepCommit{Number: 1, Blobs: tc.changes}
		if err := step.Check(); mailroom.CodeOf(err) != tc.want {
			t.Errorf("%s: got %v, want code %q", tc.name, err, tc.want)
		}
	}
}

// A server of a version without blobs computes the same digest of a step without blobs, so a worker may repeat such a
// step at an older server.
func TestTheDigestOfAStepWithoutBlobsEqualsTheDigestOfOlderVersions(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "x"))
	w.mustStart("x")
	if _, err := w.append(thread.StepCommit{Number: 1, Claim: w.claim(), Step: mailroom.Step{Name: "s"}}); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "digest", w.runs["x"].LastStep.Digest, "44ce16391cc62c2afb36833d6bce2bf5")
}
