package chat

import (
	"strings"

	"mailroom"
)

// ticketWord is by what people name a ticket that was shown to them: it stands for
// the ticket and for exactly what it asks.
func ticketWord(k *mailroom.Ticket) string {
	return mailroom.DeriveID("word", k.ID, k.Digest)[:8]
}

// digestPrefix is how much of a ticket's digest a decision carries.
const digestPrefix = 16

// buttonData is what the button for a verdict on a ticket carries. It has at most 64
// bytes.
func buttonData(v mailroom.Verdict, k *mailroom.Ticket) string {
	return string(v) + " " + strings.ReplaceAll(k.ID, "-", "") + " " + k.Digest[:min(digestPrefix, len(k.Digest))]
}

// parseButtonData reads what a button carried. Digest is what was shown with it.
func parseButtonData(data string) (d mailroom.Decision, ok bool) {
	words := strings.Split(data, " ")
	if len(words) != 3 || len(words[1]) != 32 || len(words[2]) != digestPrefix {
		return d, false
	}
	v, id := mailroom.Verdict(words[0]), words[1]
	if v != mailroom.VerdictApprove && v != mailroom.VerdictDeny {
		return d, false
	}
	id = strings.Join([]string{id[:8], id[8:12], id[12:16], id[16:20], id[20:]}, "-")
	return mailroom.Decision{Ticket: id, Verdict: v, Digest: words[2]}, true
}
