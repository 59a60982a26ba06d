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
	titles, err := titlesOf(rd, rows)
	for i := range out {
		out[i].Title = titles[out[i].ID]
	}
	return out, err
}

// ListThreads is showThreads with the titles of their latest runs.
func ListThreads(rd store.Reader, rows []*mailroom.Thread) ([]api.Thread, error) {
	out, err := showThreads(rd, rows)
	if err != nil {
		return nil, err
	}
	var latest []string
	for _, t := range out {
		if t.LatestRun != nil {
			latest = append(latest, *t.LatestRun)
		}
	}
	if len(latest) == 0 {
		return out, nil
	}
	runs, err := rd.Runs(store.RunQuery{IDs: latest})
	if err != nil {
		return nil, err
	}
	titles, err := titlesOf(rd, runs)
	for i, t := range out {
		if t.LatestRun != nil {
			out[i].Title = titles[*t.LatestRun]
		}
	}
	return out, err
}

// titlesOf returns the titles of runs by their ids. It leaves out those that exceed titleBytes.
func titlesOf(rd store.Reader, rows []*mailroom.Run) (map[string]string, error) {
	titles := map[string]string{}
	batch := map[store.EntryRef]string{} // ids of the runs of the next query
	size, left := int64(0), int64(titleBytes)
	for _, r := range rows {
		ref, need := titleEntry(r)
		switch {
		case ref.Seq == 0:
		case r.InputText != "" && len(r.Inputs) == 1 && ref.Seq == r.FirstSeq:
			titles[r.ID] = display.Gist(r.InputText, titleLength)
		case need <= left:
			if size > 0 && size+need > titleBatch {
				if err := readTitles(rd, batch, titles); err != nil {
					return nil, err
				}
				size = 0
			}
			batch[ref] = r.ID
			size, left = size+need, left-need
		}
	}
	return titles, readTitles(rd, batch, titles)
}

// readTitles moves the runs of a batch to titles. It leaves out a run whose entry is gone.
func readTitles(rd store.Reader, batch map[store.EntryRef]string, titles map[string]string) error {
	if len(batch) == 0 {
		return nil
	}
	entries, err := rd.Entries(store.EntryQuery{At: slices.Collect(maps.Keys(batch))})
	for _, e := range entries {
		titles[batch[store.EntryRef{Thread: e.Thread, Seq: e.Seq}]] = titleOf(e)
	}
	clear(batch)
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
