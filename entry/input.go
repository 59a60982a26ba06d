package entry

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"mailroom"
	"mailroom/internal/check"
	"mailroom/internal/digest"
	"mailroom/internal/jsontext"
)

// maxInputDepth bounds how deep an effect's input nests.
const maxInputDepth = 1000

// DigestInput returns the digest of an effect's input: the first 32 hex digits of the SHA-256 of its canonical JSON, as
// [jsontext.AppendCanonical] has it. Equal values have equal digests, whatever language wrote them. No input is null.
func DigestInput(input json.RawMessage) (string, error) {
	if input == nil {
		input = json.RawMessage("null")
	}
	if err := check.JSON("input", input, mailroom.MaxEffect); err != nil {
		return "", err
	}
	text, err := jsontext.AppendCanonical(make([]byte, 0, len(input)), input, maxInputDepth)
	if err != nil {
		return "", check.Invalid("input", err.Error(), nil)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16]), nil
}

// BeganWith reports whether the effect was started with the input of e, whose entries would be of the form given. An
// earlier version recorded the digest of the input as it was spelled.
func (s *EffectState) BeganWith(e mailroom.Effect, given EffectEntry) bool {
	return s.Input == given.Input || s.Input == digest.Short(e.Input)
}
