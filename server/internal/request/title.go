package request

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/entry"
	"mailroom/internal/display"
	"mailroom/internal/jsontext"
	"mailroom/store"
)

const (
	titleLength = 200     // characters
	titleBytes  = 8 << 20 // size of the messages that one list reads for its titles
	titleBatch  = 1 << 20 // size of those that one query reads, unless the first is larger
	// unknownInput is the size that is assumed for the messages of runs of older versions.
	unknownInput = 64 << 10
)

// ListRuns is ShowRunsTo with the titles of the runs. The caller has checked that who may see the runs, and so their
// messages.
func ListRuns(rd store.Reader, who *auth.Token, rows []*mailroom.Run) ([]api.Run, error) {
	out, err := ShowRunsTo(rd, who, rows)
	if err != nil {
		return nil, err
	}
	titles := newTitleReader(rd)
	for _, r := range rows {
		if err := titles.add(r); err != nil {
			return nil, err
		}
	}
	if err := titles.readBatch(); err != nil {
		return nil, err
	}
	for i := range out {
		out[i].Title = titles.found[out[i].ID]
	}
	return out, nil
}

// ListThreads makes the wire objects of threads, with the titles of their latest runs.
func ListThreads(rd store.Reader, rows []*mailroom.Thread) ([]api.Thread, error) {
	titles := newTitleReader(rd)
	out := make([]api.Thread, 0, len(rows))
	for _, t := range rows {
		shown, latest, err := showThread(rd, t)
		if err != nil {
			return nil, err
		}
		out = append(out, shown)
		if latest == nil {
			continue
		}
		if err := titles.add(latest); err != nil {
			return nil, err
		}
	}
	if err := titles.readBatch(); err != nil {
		return nil, err
	}
	for i := range out {
		if out[i].LatestRun != nil {
			out[i].Title = titles.found[*out[i].LatestRun]
		}
	}
	return out, nil
}

// titleReader reads the titles of runs. It keeps no rows, which may be large, and leaves out the runs whose messages
// exceed titleBytes.
type titleReader struct {
	rd    store.Reader
	found map[string]string         // titles, by the id of the run
	batch map[store.EntryRef]string // ids of the runs whose titles the next query reads
	size  int64                     // of the messages of batch
	left  int64                     // of titleBytes
}

func newTitleReader(rd store.Reader) *titleReader {
	return &titleReader{rd: rd, found: map[string]string{}, batch: map[store.EntryRef]string{}, left: titleBytes}
}

// add has the title of r read, by a later call of add or readBatch at the latest.
func (t *titleReader) add(r *mailroom.Run) error {
	ref, need := titleEntry(r)
	switch {
	case ref.Seq == 0:
		return nil
	case r.InputText != "" && len(r.Inputs) == 1 && ref.Seq == r.FirstSeq:
		t.found[r.ID] = display.Gist(r.InputText, titleLength)
		return nil
	case need > t.left:
		return nil
	}
	if t.size+need > titleBatch {
		if err := t.readBatch(); err != nil {
			return err
		}
	}
	t.batch[ref] = r.ID
	t.size, t.left = t.size+need, t.left-need
	return nil
}

// readBatch reads the titles of batch. It leaves out a run whose entry is gone.
func (t *titleReader) readBatch() error {
	if len(t.batch) == 0 {
		return nil
	}
	entries, err := t.rd.Entries(store.EntryQuery{At: slices.Collect(maps.Keys(t.batch))})
	for _, e := range entries {
		t.found[t.batch[store.EntryRef{Thread: e.Thread, Seq: e.Seq}]] = titleOf(e)
	}
	clear(t.batch)
	t.size = 0
	return err
}

// titleEntry returns the entry with the content of the first message of a run that was not retracted, and the size that
// it has at most, unless an older version wrote it. Its Seq is 0 if there is no such message.
func titleEntry(r *mailroom.Run) (ref store.EntryRef, size int64) {
	for _, in := range r.Inputs {
		if in.Retracted {
			continue
		}
		size = cmp.Or(r.InputBytes, unknownInput)
		if !strings.HasSuffix(in.Message, "."+strconv.FormatInt(in.Seq, 10)) { // an edit, which InputBytes leaves out
			size = mailroom.MaxText
		}
		return store.EntryRef{Thread: r.Thread, Seq: in.Seq}, size
	}
	return store.EntryRef{}, 0
}

// titleOf returns the title that a message gives a run: its text, otherwise the name of a part. It is "" if the entry
// has no message.
func titleOf(e mailroom.Entry) string {
	if e.Kind != entry.KindMessage && e.Kind != entry.KindEdited {
		return ""
	}
	if title := display.Gist(textOf(e.Body), titleLength); title != "" {
		return title
	}
	var m struct {
		Parts []struct {
			Name string `json:"name"`
		} `json:"parts"`
	}
	if e.Decode(&m) != nil {
		return ""
	}
	for _, part := range m.Parts {
		if title := display.Gist(part.Name, titleLength); title != "" {
			return title
		}
	}
	return ""
}

// textOf returns the text of the body of a message or an edit. It does not read what follows the text: the parts repeat
// it.
func textOf(body []byte) string {
	const depth = 10_000
	s := jsontext.Scan(body)
	for s.Open('{'); s.More('}'); s.Value(depth) {
		if string(s.Name()) == "text" && s.Peek() == '"' {
			return string(s.ReadString())
		}
	}
	return ""
}
