package tracker

import (
	"strings"

	"mailroom"
)

// nameMetadata is the member in which other programs keep data, each under its own name.
const nameMetadata = "metadata"

// Metadata returns the JSON that a program stored under name, or "".
func (it *Issue) Metadata(name string) string {
	if !strings.Contains(it.line, `"`+nameMetadata+`"`) {
		return "" // most lines; saves parsing
	}
	kept, _ := it.metadata() // anything but an object has no names
	for _, f := range kept {
		if f.name == name {
			return f.raw
		}
	}
	return ""
}

// SetMetadata stores a JSON value under name. Values under other names stay unchanged.
func (it *Issue) SetMetadata(name, raw string) error {
	kept, err := it.metadata()
	if err != nil {
		return mailroom.Errorf(mailroom.CodeConflict, "metadata of %s is not a JSON object; it was left unchanged", it.ID)
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

// setField returns the members of an object with one replaced or appended.
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
