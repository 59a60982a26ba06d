package chat

import (
	"strings"

	"mailroom"
	"mailroom/internal/digest"
	"mailroom/internal/thread"
)

// ticketWord returns the short name of a ticket in a chat. It depends on the ticket and on its
// digest, so it names exactly what was asked.
func ticketWord(k *mailroom.Ticket) string {
	return digest.ID("word", k.ID, k.Digest)[:8]
}

// digestPrefix is the number of digest characters in a decision.
const digestPrefix = 16

// buttonData returns the payload of a verdict's button, at most 64 bytes.
func buttonData(v mailroom.Verdict, k *mailroom.Ticket) string {
	return string(v) + " " + strings.ReplaceAll(k.ID, "-", "") + " " + k.Digest[:min(digestPrefix, len(k.Digest))]
}

// parseButtonData parses the payload of a button. Digest is the one shown with it.
func parseButtonData(data string) (d thread.Decision, ok bool) {
	words := strings.Split(data, " ")
	if len(words) != 3 || len(words[1]) != 32 || len(words[2]) != digestPrefix {
		return d, false
	}
	v, id := mailroom.Verdict(words[0]), words[1]
	if v != mailroom.VerdictApprove && v != mailroom.VerdictDeny {
		return d, false
	}
	id = strings.Join([]string{id[:8], id[8:12], id[12:16], id[16:20], id[20:]}, "-")
	return thread.Decision{Ticket: id, Verdict: v, Digest: words[2]}, true
}
