package tracker

import (
	"strings"

	"mailroom"
)

// nameMetadata is the member in which other programs keep what is theirs, each
// under a name of its own.
const nameMetadata = "metadata"

// Metadata returns the JSON that is kept with the issue under a name, "" if there
// is none.
func (it *Issue) Metadata(name string) string {
	if !strings.Contains(it.line, `"`+nameMetadata+`"`) {
		return "" // most lines: they need not be taken apart
	}
	kept, _ := it.metadata() // what is no object has no names
	for _, f := range kept {
		if f.name == name {
			return f.raw
		}
	}
	return ""
}

// SetMetadata keeps a JSON value with the issue under a name. What is kept under
// others stays as it is.
func (it *Issue) SetMetadata(name, raw string) error {
	kept, err := it.metadata()
	if err != nil {
		return mailroom.Errorf(mailroom.CodeConflict, "the metadata of %s is no object, and is left as it is", it.ID)
	}
	if it.line == "" {
		it.line = newCodec().write(it)
	}
	it.line = encodeObject(setField(it.parts(), nameMetadata, encodeObject(setField(kept, name, raw))))
	return nil
}

func (it *Issue) metadata() ([]field, error) {
	for _, f := range it.parts() {
		if f.name == nameMetadata && f.raw != "null" {
			return fields(f.raw)
		}
	}
	return nil, nil
}

// setField is an object with a member set: in its place, or at the end.
func setField(parts []field, name, raw string) []field {
	out := append([]field(nil), parts...)
	for i, f := range out {
		if f.name == name {
			out[i].raw = raw
			return out
		}
	}
	return append(out, field{name: name, key: encode(name), raw: raw})
}
