package tracker

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"slices"
	"sync"
	"time"
)

// past is what is known about earlier states of a file. The zero value knows nothing.
//
// Without a base, an old copy looks like an edit of another clone: a closed issue that was reopened since, a label
// that was removed. A history in each line would distinguish them, but would change lines that other programs
// compare. So each clone keeps hashes of the lines that it replaced, in a file of its own.
type past struct {
	// base returns the common ancestor of copies.
	base func() (text string, known bool)
	// replaced reports whether this clone once had the line and replaced or merged it. Such a line is
	// an old copy of an issue and brings no news. Without a base, nothing else distinguishes an old
	// copy from an edit in another clone.
	replaced func(line string) bool
}

// isOld reports whether this clone once had the line and replaced it; false if replacements are not recorded.
func (t *Tracker) isOld(line string) bool { return t.past.replaced != nil && t.past.replaced(line) }

// goneMark stands for the line of an issue that the file lost: the issue was deleted, and no tombstone shows it. The
// mark does not change if the issue gets another id.
func goneMark(it *Issue) string {
	first := *it
	for id := first.MovedFrom(); id != ""; id = first.MovedFrom() {
		first.ID = id
	}
	return "gone " + first.ID + " " + it.CreatedAt.UTC().Format(time.RFC3339Nano) + " " + it.CreatedBy
}

// lose drops an issue for good, so that an old copy of it does not bring it back.
func lose(t *Tracker, it *Issue) {
	t.issues.drop(it.ID)
	t.met = append(t.met, goneMark(it))
}

// wasRemoved reports whether this clone removed an issue that the file lacks. That the clone once replaced the
// issue's line does not show it, because the whole file may have been exchanged since, from a backup, a branch or an
// editor.
func wasRemoved(t *Tracker, it *Issue) bool { return t.isOld(goneMark(it)) }

// mergeTwo merges two versions of an issue that were made from base, or nil. Without a base, a version that this
// clone knows to be old loses.
func mergeTwo(t *Tracker, base, first, second *Issue) *Issue {
	lines := []string{t.Line(first), t.Line(second)}
	one, two := t.isOld(lines[0]), t.isOld(lines[1])
	if first.UpdatedAt.After(second.UpdatedAt) { // the second was not made from it: the file is another one since
		one = false
	} else if second.UpdatedAt.After(first.UpdatedAt) {
		two = false
	}
	var out *Issue
	switch {
	case base != nil:
		out = t.codec.mergeWithBase(base, first, second)
		contest(t, base, first, second, out)
	case one && !two:
		out = second
	case two && !one:
		out = first
	default:
		out = t.codec.merge(first, second)
		contest(t, nil, first, second, out)
	}
	for _, line := range lines {
		if t.Line(out) != line {
			t.met = append(t.met, line)
		}
	}
	return out
}

// settle drops old copies from other, and gives issues of t and other that share an id different ids. It returns how
// many copies were older than the issue in t, and how many were of an issue that t no longer has.
func settle(t, other, base *Tracker) (older, gone int) {
	if t.past.replaced == nil {
		separate(t, other, base)
		return 0, 0
	}
	old := oldCopies(t, other)
	older, gone = dropOld(t, other, base, old)
	separate(t, other, base)
	moreOlder, moreGone := dropOld(t, other, base, old) // t has some under the ids that separate gave
	return older + moreOlder, gone + moreGone
}

// oldCopies returns the marks, as [goneMark] makes them, of the issues in other that bring no news: t has the same
// line, or knows it to be old. A new id of the issue, or of one that it depends on, changes the line, but not the mark.
// An issue that other has twice is left out, because separate may unite the two.
func oldCopies(t, other *Tracker) map[string]bool {
	old := map[string]bool{}
	for _, it := range other.issues.all() {
		mark, line := goneMark(it), other.Line(it)
		_, twice := old[mark]
		ours := t.issues.get(it.ID)
		old[mark] = !twice && (t.isOld(line) || ours != nil && t.Line(ours) == line)
	}
	return old
}

// dropOld drops from other, where there is no base, the old copies: of issues that t has in a newer version, and of
// issues that t no longer has, with the dependencies on them. It returns the number of each.
func dropOld(t, other, base *Tracker, old map[string]bool) (older, gone int) {
	var same, unknown []string
	for _, theirs := range other.issues.all() {
		if !old[goneMark(theirs)] || base.ancestor(theirs) != nil {
			continue
		}
		switch ours := t.issues.get(theirs.ID); {
		case ours != nil && sameOrigin(ours, theirs):
			if !t.isOld(t.Line(ours)) && t.Line(ours) != other.Line(theirs) {
				same = append(same, theirs.ID)
			}
		case wasRemoved(t, theirs) && movedCopy(t, theirs) == nil:
			unknown = append(unknown, theirs.ID)
		}
	}
	for _, id := range slices.Concat(same, unknown) {
		other.issues.drop(id)
	}
	unlinkIssues(other, unknown)
	return len(same), len(unknown)
}

// fileReplaced has hashes of the lines that this clone replaced. It is local, and git ignores it. If it is lost, old
// copies are no longer recognized, and nothing else is affected.
const (
	fileReplaced = "replaced.log"
	hashSize     = 8       // bytes
	maxReplaced  = 1 << 20 // bytes of the file
)

func hashLine(line string) string {
	sum := sha256.Sum256([]byte(line))
	return hex.EncodeToString(sum[:hashSize])
}

// past returns the knowledge about earlier states of a tracker's file. baseOf finds the common ancestor of copies;
// the lines that this clone replaced are read from [fileReplaced], once, at the first question about a line.
func (f Folder) past(baseOf func() (string, bool)) past {
	hashes := sync.OnceValue(func() map[string]bool {
		found := map[string]bool{}
		text, _ := f.ReadFile(fileReplaced, 2*maxReplaced) // without this file old copies are not recognized
		for line := range bytes.Lines(text) {
			found[string(bytes.TrimSpace(line))] = true
		}
		return found
	})
	return past{base: baseOf, replaced: func(line string) bool { return hashes()[hashLine(line)] }}
}

// remember records the lines that a change replaces. A failure is ignored, because only the knowledge that these
// lines are old is lost.
func remember(dir *Dir, lock *Lock, t *Tracker) {
	var out bytes.Buffer
	add := func(line string) {
		out.WriteString(hashLine(line))
		out.WriteByte('\n')
	}
	for _, it := range t.issues.order {
		if !it.unchanged && it.line != "" && it.number > 0 {
			add(it.line)
		}
	}
	for _, line := range t.met {
		add(line)
	}
	if out.Len() == 0 {
		return
	}
	if long := out.Len() - maxReplaced/2; long > 0 {
		out.Next(long) // an incomplete hash matches nothing
	}
	file, info, err := dir.OpenFile(fileReplaced, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return
	}
	_, err = file.Write(out.Bytes())
	if file.Close() != nil || err != nil || info.Size()+int64(out.Len()) <= maxReplaced {
		return
	}
	// A file that is longer than this function lets it grow was not written by this function, and is dropped.
	if text, err := dir.Read(fileReplaced, 2*maxReplaced); err == nil || info.Size() > 2*maxReplaced {
		text = text[max(len(text)-maxReplaced/2, 0):]
		_ = lock.Replace(fileReplaced, 0o644, func(to io.Writer) error {
			_, err := to.Write(text[bytes.IndexByte(text, '\n')+1:])
			return err
		}, nil)
	}
}
