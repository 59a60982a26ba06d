package feed

import (
	"encoding/json"
	"fmt"
	"time"

	"mailroom"
	"mailroom/internal/digest"
	"mailroom/issues/tracker"
)

// marker is what a claim stores in the metadata of its issue.
type marker struct {
	Server string `json:"server"` // id of the claiming server
	Key    string `json:"key"`    // key of the submit
	// Concluded is the issue's updated_at after this server wrote the end of the run into it, or zero before that.
	Concluded time.Time `json:"told,omitzero"`
}

// markerKey is the metadata key of the marker.
const markerKey = "mailroom"

// markerOf returns the marker of an issue. ours is false if it has none or belongs to another
// server.
func markerOf(it *tracker.Issue, server string) (m marker, ours bool) {
	raw := it.Metadata(markerKey)
	if raw == "" || json.Unmarshal([]byte(raw), &m) != nil { // a value of another program is not a marker
		return marker{}, false
	}
	return m, m.Server == server && m.Key != ""
}

func (m marker) store(it *tracker.Issue) error {
	raw, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode claim marker: %w", err)
	}
	return it.SetMetadata(markerKey, string(raw))
}

// submitKey returns the key under which an issue is submitted to its thread. Each change of the issue yields another
// key, so a reopened issue can be submitted again.
func submitKey(it *tracker.Issue) string {
	key := it.ID + "@" + it.UpdatedAt.UTC().Format(time.RFC3339Nano)
	if len(key) > mailroom.MaxSubmitKey {
		return digest.ID("issue", key)
	}
	return key
}

// LastSubmit returns the thread and the key of an issue's latest submit by any server with a channel of this name.
// Both are "" if the issue was never submitted.
func LastSubmit(channel string, it *tracker.Issue) (thread, key string) {
	m, _ := markerOf(it, "")
	if m.Key == "" {
		return "", ""
	}
	return Thread(channel, claim{it, m}.claimedID()), m.Key
}
