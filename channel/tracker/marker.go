package tracker

import (
	"encoding/json"
	"fmt"
	"time"

	"mailroom"
	issues "mailroom/tracker"
)

// marker is what a claim leaves in the metadata of its issue.
type marker struct {
	Server string `json:"server"` // whose claim it is
	Key    string `json:"key"`    // of the submit
	// Concluded is updated_at of the write that said how the run ended; zero: none
	// has yet.
	Concluded time.Time `json:"told,omitzero"`
}

// markerKey is the member of an issue's metadata that is ours.
const markerKey = "mailroom"

// markerOf reads the mark of an issue, if it is of this server.
func markerOf(it *issues.Issue, server string) (m marker, ours bool) {
	raw := it.Metadata(markerKey)
	if raw == "" || json.Unmarshal([]byte(raw), &m) != nil { // what somebody else has put there is not ours
		return marker{}, false
	}
	return m, m.Server == server && m.Key != ""
}

func (m marker) store(it *issues.Issue) error {
	raw, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode the mark of a claim: %w", err)
	}
	return it.SetMetadata(markerKey, string(raw))
}

// submitKey is the key under which an issue is submitted as it is: what was changed
// since has another.
func submitKey(it *issues.Issue) string {
	key := it.ID + "@" + it.UpdatedAt.UTC().Format(time.RFC3339Nano)
	if len(key) > mailroom.MaxSubmitKey {
		return mailroom.DeriveID("issue", key)
	}
	return key
}

// LastSubmit is the thread to which an issue was submitted last, by whatever server
// with a channel of this name, and its key there; "" if it never was.
func LastSubmit(channel string, it *issues.Issue) (thread, key string) {
	m, _ := markerOf(it, "")
	if m.Key == "" {
		return "", ""
	}
	return Thread(channel, claim{it, m}.claimedID()), m.Key
}
