package tracker

import (
	"encoding/json"
	"fmt"
	"time"

	"mailroom"
	issues "mailroom/tracker"
)

// mark is what a claim leaves in the metadata of its issue.
type mark struct {
	Server string `json:"server"` // whose claim it is
	Key    string `json:"key"`    // of the submit
	// Told is updated_at of the write that said how the run ended; zero: none
	// has yet.
	Told time.Time `json:"told,omitzero"`
}

// markName is the member of an issue's metadata that is ours.
const markName = "mailroom"

// markOf reads the mark of an issue, if it is of this server.
func markOf(it *issues.Issue, server string) (m mark, ours bool) {
	raw := it.Metadata(markName)
	if raw == "" || json.Unmarshal([]byte(raw), &m) != nil { // what somebody else has put there is not ours
		return mark{}, false
	}
	return m, m.Server == server && m.Key != ""
}

func (m mark) put(it *issues.Issue) error {
	raw, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode the mark of a claim: %w", err)
	}
	return it.SetMetadata(markName, string(raw))
}

// keyOf is the key under which an issue is submitted as it is: what was changed
// since has another.
func keyOf(it *issues.Issue) string {
	key := it.ID + "@" + it.UpdatedAt.UTC().Format(time.RFC3339Nano)
	if len(key) > mailroom.MaxSubmitKey {
		return mailroom.DeriveID("issue", key)
	}
	return key
}

// LastSubmit is the thread to which an issue was submitted last, by whatever server
// with a channel of this name, and its key there; "" if it never was.
func LastSubmit(channel string, it *issues.Issue) (thread, key string) {
	m, _ := markOf(it, "")
	if m.Key == "" {
		return "", ""
	}
	return Thread(channel, claim{it, m}.chat()), m.Key
}
