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

// newID returns an unused id: the prefix and a hash of the issue's content, which makes it unlikely
// that two clones choose the same one.
func (t *Tracker) newID(prefix string, it *Issue, actor string) string {
	for n := t.idLength(); ; n = min(n+1, longestID) {
		for nonce := range 10 {
			id := prefix + "-" + hashID(n, it.Title, it.Description, actor, it.CreatedAt.Format(time.RFC3339Nano),
				strconv.Itoa(nonce))
			if !t.issues.has(id) {
				return id
			}
		}
	}
}

// idLength returns the number of characters in the hash. It grows with the tracker, so that the
// probability of a collision between any two ids stays below a quarter.
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

// hashID returns n characters in base 36.
func hashID(n int, words ...string) string {
	h := sha256.New()
	for _, w := range words {
		size := binary.BigEndian.AppendUint64(nil, uint64(len(w)))
		h.Write(append(size, w...)) // a hash never fails
	}
	text := new(big.Int).SetBytes(h.Sum(nil)).Text(36)
	return fmt.Sprintf("%0*s", n, text)[:n]
}

// childID returns the next free child id of parent.
func (t *Tracker) childID(parent string) (string, error) {
	if strings.Count(parent, ".") >= maxNesting {
		return "", mailroom.Errorf(mailroom.CodeInvalid, "%s is nested %d levels deep and cannot have children", parent,
			maxNesting)
	}
	most := 0 // a number that was used before a gap is not used again
	first, _ := t.issues.search(parent + ".")
	for _, it := range t.issues.order[first:] {
		rest, is := strings.CutPrefix(it.ID, parent+".")
		if !is {
			break
		}
		number, _, _ := strings.Cut(rest, ".")
		const digits = 9 // a longer number is not one that this function made, and the next one could overflow
		if n, err := strconv.Atoi(number); err == nil && n > 0 && len(number) <= digits {
			most = max(most, n)
		}
	}
	for t.issues.has(parent + "." + strconv.Itoa(most+1)) {
		most++
	}
	return parent + "." + strconv.Itoa(most+1), nil
}

// CheckPrefix returns an error if ids cannot begin with prefix.
func CheckPrefix(prefix string) error {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.'
	}
	if prefix == "" || len(prefix) > 64 || strings.HasSuffix(prefix, "-") ||
		slices.ContainsFunc([]rune(prefix), func(r rune) bool {
			return !plain(r)
		}) {
		return mailroom.Errorf(mailroom.CodeInvalid,
			"invalid id prefix %q: use 1 to 64 letters, digits or any of - _ . and do not end with -", prefix)
	}
	return nil
}

// Prefix returns the most common prefix of the ids, or "".
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
