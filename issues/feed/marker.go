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
	// Concluded is updated_at of the write that recorded the end of the run, or zero.
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

// submitKey returns the key under which an issue is submitted. Each change of the issue yields
// another key.
func submitKey(it *tracker.Issue) string {
	key := it.ID + "@" + it.UpdatedAt.UTC().Format(time.RFC3339Nano)
	if len(key) > mailroom.MaxSubmitKey {
		return digest.ID("issue", key)
	}
	return key
}

// LastSubmit returns the thread and the key of an issue's latest submit by any server with a
// channel of this name. They are "" if it was never submitted.
func LastSubmit(channel string, it *tracker.Issue) (thread, key string) {
	m, _ := markerOf(it, "")
	if m.Key == "" {
		return "", ""
	}
	return Thread(channel, claim{it, m}.claimedID()), m.Key
}
