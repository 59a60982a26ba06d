package tracker

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"mailroom"
)

const (
	shortestID = 3 // characters after the prefix
	longestID  = 8
	maxNesting = 3 // levels of children: PREFIX-abc.1.2.3
)

// newID makes an id that no issue has: the prefix, and as many characters of a
// hash of what makes the issue its own as keep two clones from choosing the same
// one.
func (t *Tracker) newID(prefix string, it *Issue, actor string) string {
	for n := t.idLength(); ; n = min(n+1, longestID) {
		for nonce := range 10 {
			id := prefix + "-" + hashID(n, it.Title, it.Description, actor, it.CreatedAt.Format(time.RFC3339Nano), strconv.Itoa(nonce))
			if !t.issues.has(id) {
				return id
			}
		}
	}
}

// idLength grows with the tracker, so that the chance of any two of its ids being
// the same stays below a quarter.
func (t *Tracker) idLength() int {
	const risk = 0.25
	n := float64(len(t.issues.order) + 1)
	for length := shortestID; length < longestID; length++ {
		if 1-math.Exp(-n*n/(2*math.Pow(36, float64(length)))) < risk {
			return length
		}
	}
	return longestID
}

// hashID returns n characters of base 36.
func hashID(n int, words ...string) string {
	h := sha256.New()
	for _, w := range words {
		size := binary.BigEndian.AppendUint64(nil, uint64(len(w)))
		h.Write(append(size, w...)) // a hash takes everything
	}
	text := new(big.Int).SetBytes(h.Sum(nil)).Text(36)
	return fmt.Sprintf("%0*s", n, text)[:n]
}

// childID is the next free child of a parent.
func (t *Tracker) childID(parent string) (string, error) {
	if strings.Count(parent, ".") >= maxNesting {
		return "", mailroom.Errorf(mailroom.CodeInvalid, "%s is a child of the %dth level and can have none", parent, maxNesting)
	}
	for n := 1; ; n++ {
		if id := parent + "." + strconv.Itoa(n); !t.issues.has(id) {
			return id, nil
		}
	}
}

// CheckPrefix refuses a prefix that cannot begin an id.
func CheckPrefix(prefix string) error {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.'
	}
	if prefix == "" || len(prefix) > 64 || strings.HasSuffix(prefix, "-") || slices.ContainsFunc([]rune(prefix), func(r rune) bool { return !plain(r) }) {
		return mailroom.Errorf(mailroom.CodeInvalid, "%q cannot begin ids: give 1 to 64 letters, digits or any of - _ . that do not end with -", prefix)
	}
	return nil
}

// Prefix is what the ids of most issues begin with, "" if there are none.
func (t *Tracker) Prefix() string {
	counts := map[string]int{}
	for _, it := range t.issues.order {
		if i := strings.LastIndexByte(it.ID, '-'); i > 0 {
			counts[it.ID[:i]]++
		}
	}
	best := ""
	for prefix, n := range counts {
		if best == "" || n > counts[best] || n == counts[best] && prefix < best {
			best = prefix
		}
	}
	return best
}
