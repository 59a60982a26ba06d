package tracker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"strings"
	"unicode/utf16"
)

// Restore repairs the issue file: see [Tracker.Restore]. UTF-16 text becomes UTF-8. Lines that
// earlier versions moved to a quarantine file come back, as far as they can be read. It returns what it
// did, and the lines that still cannot be read.
func (f Folder) Restore(ctx context.Context) (done []Restored, invalid []InvalidLine, err error) {
	var left []byte
	found := false
	_, err = f.update(ctx, func(t *Tracker) error {
		var aside []quarantined
		if aside, err = f.quarantine(); err != nil {
			return err
		}
		done, left, found = nil, nil, false
		lines := make([]rawLine, len(aside))
		for i, q := range aside {
			lines[i] = rawLine{text: strings.TrimPrefix(q.Line, byteOrderMark)}
		}
		here := t.Restore() // first: what stands in the file is newer
		moved, restored := restoreLines(t, lines)
		done = append(here, moved...)
		for i, q := range aside {
			if found = found || restored[i]; !restored[i] {
				left = append(append(left, q.raw...), '\n')
			}
		}
		invalid = invalidLines(t)
		return nil
	}, false, true)
	if err == nil && found {
		err = f.WriteFile(ctx, fileQuarantine, left)
	}
	return done, invalid, err
}

// invalidLines returns the lines that cannot be read.
func invalidLines(t *Tracker) (found []InvalidLine) {
	for _, o := range t.others {
		if isInvalid(o) {
			found = append(found, invalidLine(t.codec, o.rawLine, o.err))
		}
	}
	return found
}

// quarantined is a line of the quarantine file.
type quarantined struct {
	Line string `json:"line"`
	raw  []byte
}

// Quarantined returns how many of the lines that earlier versions moved out of the issue file Restore can bring back,
// and how many it cannot read.
func (f Folder) Quarantined() (restorable, lost int, err error) {
	found, err := f.quarantine()
	for _, q := range found {
		if whole, _ := splitObjects(strings.TrimPrefix(q.Line, byteOrderMark)); len(whole) > 0 {
			restorable++
		} else {
			lost++
		}
	}
	return restorable, lost, err
}

func (f Folder) quarantine() (found []quarantined, err error) {
	text, err := f.ReadFile(fileQuarantine, maxQuarantine)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for raw := range bytes.Lines(text) {
		q := quarantined{raw: bytes.TrimRight(raw, "\r\n")}
		_ = json.Unmarshal(q.raw, &q) // a record without a line cannot be restored, and stays in the quarantine file
		if len(q.raw) > 0 {
			found = append(found, q)
		}
	}
	return found, err
}

// decodeUTF16 returns UTF-16 text, which some shells of Windows write, as UTF-8. Other text stays.
func decodeUTF16(text string) (decoded string, is16 bool) {
	order := -1 // index of the low byte
	switch {
	case len(text) < 2:
	case text[:2] == "\xff\xfe", text[0] == '{' && text[1] == 0:
		order = 0
	case text[:2] == "\xfe\xff", text[0] == 0 && text[1] == '{':
		order = 1
	}
	if order < 0 {
		return text, false
	}
	units := make([]uint16, len(text)/2)
	for i := range units {
		units[i] = uint16(text[2*i+order]) | uint16(text[2*i+1-order])<<8
	}
	return string(utf16.Decode(units)), true
}
