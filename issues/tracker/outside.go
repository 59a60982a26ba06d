package tracker

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// memberSource is the member of an issue with the name that it has for good at the board that it came from. Commands
// can change the id of an issue here, and an issue can get another address there.
const memberSource = "source_id"

// Outside is an issue of a board outside, such as GitHub. It has no ID yet, its ExternalRef is its address, and its
// dependencies name the keys of other issues.
type Outside struct {
	Key string // names it for good in all boards, such as "github:4711"
	Issue
}

// Remote says which issues of a board outside are read, and how.
type Remote struct {
	Place string // such as "ann/roof"
	API   string // address of the API; "" for the platform's own
	Token string
	// Closed also reads all closed issues. Otherwise Since decides: zero reads the open issues, and another time reads
	// what has changed since then.
	Closed bool
	Since  time.Time
	// Seen has the times of the last change of the issues that were read before, by key. An issue that has not changed
	// since is left out.
	Seen map[string]time.Time
}

// Seen returns the times of the last change of the issues of t that came from a board outside, by key.
func Seen(t *Tracker) map[string]time.Time {
	seen := map[string]time.Time{}
	for _, it := range t.All() {
		if key := it.source(); key != "" {
			seen[key] = it.UpdatedAt
		}
	}
	return seen
}

// source returns the key of an issue of a board outside, or "".
func (it *Issue) source() (key string) {
	if !it.foreign {
		return ""
	}
	for _, f := range it.parts() {
		if f.name == memberSource && json.Unmarshal([]byte(f.raw), &key) != nil {
			key = "" // not a text
		}
	}
	return key
}

// idsByKey returns the ids of the issues that came from a board outside, by key.
func idsByKey(t *Tracker) map[string]string {
	ids := map[string]string{}
	for _, it := range t.All() {
		if key := it.source(); key != "" {
			ids[key] = it.ID
		}
	}
	return ids
}

// OutsideLines returns the lines of issues of a board outside for an import into t. An issue that t does not have gets
// an id with the prefix that is the same in each clone; a closed one is left out unless closed is set. A dependency on
// an issue that is neither in t nor among the others is left out.
func OutsideLines(t *Tracker, came []Outside, prefix string, closed bool) string {
	ids := idsByKey(t)
	var wanted []Outside
	taken := map[string]bool{}
	for _, o := range came {
		if ids[o.Key] == "" {
			if o.Status == StatusClosed && !closed {
				continue
			}
			for n := 0; ids[o.Key] == ""; n++ {
				if id := prefix + "-" + hashID(longestID, o.Key, strconv.Itoa(n)); !taken[id] && !t.issues.has(id) {
					ids[o.Key] = id
				}
			}
		}
		taken[ids[o.Key]] = true
		wanted = append(wanted, o)
	}
	var out strings.Builder
	for _, o := range wanted {
		it := o.Issue
		it.ID, it.Dependencies = ids[o.Key], nil
		for _, d := range o.Dependencies {
			if d.On = ids[d.On]; d.On != "" && d.On != it.ID {
				it.Dependencies = append(it.Dependencies, d)
			}
		}
		out.WriteString(SetMember(t.codec.write(&it), memberSource, encodeText(o.Key), true) + "\n")
	}
	return out.String()
}

// WithIDs returns lines that were imported into t from a board outside, with the ids that their issues have in t now.
func WithIDs(t *Tracker, lines string) string {
	now := idsByKey(t)
	past, _ := Parse(lines)
	var pairs []string
	for key, was := range idsByKey(past) {
		if id := now[key]; id != "" && id != was {
			pairs = append(pairs, encodeText(was), encodeText(id))
		}
	}
	return strings.NewReplacer(pairs...).Replace(lines)
}
