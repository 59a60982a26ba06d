package manual

import (
	"fmt"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/prometheus/client_golang/prometheus"

	"mailroom"
	"mailroom/api"
	"mailroom/internal/lazyregexp"
	"mailroom/project"
	"mailroom/server/operate"
)

// filterList describes the keys of the filter of each list.
func filterList() (string, error) {
	var b strings.Builder
	for _, list := range operate.Filters() {
		t := newTable("key", "takes")
		for _, k := range list.Keys {
			t.add(span(k[0]), k[1])
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n%s", list.Name, list.Where, t)
	}
	return b.String(), nil
}

// descOf reads what a metric says of itself; the library has no other access to it.
var descOf = lazyregexp.New(`^Desc\{fqName: "([^"]+)", help: "((?:[^"\\]|\\.)*)", .*variableLabels: \{([^}]*)\}\}$`)

// metricList lists the metrics of a server, without the ones of Go and of the process.
func metricList() (string, error) {
	m := operate.NewMetrics()
	m.Channels(nil, func() []operate.ChannelMetrics { return nil })
	descs := make(chan *prometheus.Desc, 1000) // more than there are
	m.Describe(descs)
	close(descs)
	rows := map[string]string{}
	for d := range descs {
		found := descOf().FindStringSubmatch(d.String())
		if found == nil {
			return "", fmt.Errorf("the description %q of a metric has another format", d)
		}
		if !strings.HasPrefix(found[1], "mailroom_") {
			continue
		}
		labels := ""
		for name := range strings.SplitSeq(found[3], ",") {
			if name != "" {
				labels += " " + span(name)
			}
		}
		t := &table{}
		t.add(span(found[1]), labels, prose(strings.ReplaceAll(found[2], `\"`, `"`)))
		rows[found[1]] = t.String()
	}
	out := newTable("metric", "labels", "meaning")
	for _, name := range sortedKeys(rows) {
		out.WriteString(rows[name])
	}
	return out.String(), nil
}

// meaningOf says what each code means, and what a program does about it.
func meaningOf() [][2]string {
	return [][2]string{
		{string(mailroom.CodeInvalid), "The input is not valid; `errors` names the places. Mend the request"},
		{string(mailroom.CodeUnserved), "No server and no worker serves the agent. Start one, or name another agent"},
		{string(mailroom.CodeUnauthenticated), "The token is missing, unknown, expired or revoked. Get another one"},
		{string(mailroom.CodeForbidden), "The token lacks the scope, or the right to this thread"},
		{string(mailroom.CodeQuotaExceeded), "The quota of the token is used up. Delete threads, or ask for more"},
		{string(mailroom.CodeNotFound), "It does not exist, or the caller may not see it"},
		{string(mailroom.CodeConflict), "It contradicts what is stored, such as a second decision. Read the state again"},
		{string(mailroom.CodeBusy), "The thread is busy and the mode is `reject`. Send later, or in another mode"},
		{string(mailroom.CodeLeaseLost), "The claim was taken away. Stop the work on this run: another worker has it"},
		{string(mailroom.CodeGone), "It has expired, such as a link or a cursor of an old log"},
		{string(mailroom.CodeTooLarge), "It exceeds a limit of size; see the limits"},
		{string(mailroom.CodeRateLimited), "Too many requests. Repeat the request after `Retry-After`"},
		{string(mailroom.CodeInternal), "A fault of the server, which its log explains"},
		{string(mailroom.CodeUnavailable), "The outcome is unknown. Repeat the request, with its key, after `Retry-After`"},
	}
}

func errorList() (string, error) {
	t := newTable("code", "HTTP status", "meaning, and what to do")
	for _, row := range meaningOf() {
		p := api.NewProblem(&mailroom.Error{Code: mailroom.Code(row[0])})
		t.add(span(row[0]), fmt.Sprint(p.Status, " ", p.Title), row[1])
	}
	return t.String(), nil
}

// limit is a bound that no setting changes.
type limit struct {
	name  string // of the constant in limits.go
	value string
	of    string // what it bounds
}

func limits() []limit {
	size := func(n uint64) string { return humanize.IBytes(n) }
	count := func(n int64) string { return humanize.Comma(n) }
	return []limit{
		{"MaxThreadID", count(mailroom.MaxThreadID), "characters of the id of a thread"},
		{"MaxKey", count(mailroom.MaxKey), "characters of a concurrency key"},
		{"MaxSubmitKey", count(mailroom.MaxSubmitKey), "characters of an idempotency key"},
		{"MaxMessages", count(mailroom.MaxMessages), "messages in one submit"},
		{"MaxParts", count(mailroom.MaxParts), "parts of one message"},
		{"MaxText", size(mailroom.MaxText), "the text of a message"},
		{"MaxURI", count(mailroom.MaxURI), "characters of the address of a file in a message"},
		{"MaxLabel", count(mailroom.MaxLabel), "characters of the name of a file, a step or an effect"},
		{"MaxPage", size(mailroom.MaxPage), "one page of a list, unless its first item is larger"},
		{"MaxOptions", size(mailroom.MaxOptions), "the `options` of a submit"},
		{"MaxMetadata", size(mailroom.MaxMetadata), "the metadata of a run or a thread"},
		{"MaxCheckpoint", size(mailroom.MaxCheckpoint), "the checkpoint of a run"},
		{"MaxAgentEntry", size(mailroom.MaxAgentEntry), "an entry that an agent writes, such as `tool.finished`"},
		{"MaxSends", count(mailroom.MaxSends), "messages that one step sends"},
		{"MaxHops", count(mailroom.MaxHops), "threads that a run was sent through, one after the other"},
		{"MaxState", size(mailroom.MaxState), "the state that an agent keeps in a thread"},
		{"MaxBlob", size(mailroom.MaxBlob), "one file that an agent keeps in a thread"},
		{"MaxBlobs", size(mailroom.MaxBlobs), "all files that an agent keeps in a thread"},
		{"MaxBlobName", count(mailroom.MaxBlobName), "bytes of the name of such a file"},
		{"MaxPosition", size(mailroom.MaxPosition), "the cursor of a channel"},
		{"MaxEffect", size(mailroom.MaxEffect), "the stored value of an effect; a larger one is marked as cut"},
		{"MaxQueued", count(mailroom.MaxQueued), "runs in the queue of a thread, by default (`max_queued`)"},
		{"MaxAnswer", size(mailroom.MaxAnswer), "the answer to a ticket"},
		{"MaxWaitsOn", count(mailroom.MaxWaitsOn), "bytes of what a silent agent says that it waits for"},
		{"MaxJoin", mailroom.MaxJoin.String(), "the time that messages of one sender are joined within"},
		{"MaxCrashes", count(mailroom.MaxCrashes), "crashes in a row, without progress, after which a run fails for good"},
		{"MaxLost", count(mailroom.MaxLost), "lost claims in all, after which a run fails for good"},
		{"MaxEvent", count(project.MaxEvent), "characters of the name of a notification's event"},
		{"MaxData", size(project.MaxData), "the data of a notification"},
		{"MaxTo", count(project.MaxTo), "receivers of a notification"},
		{"MaxPending", count(project.MaxPending), "notifications of an inbox that were read out of order"},
		{"MaxInboxes", count(project.MaxInboxes), "inboxes of a project"},
	}
}

func limitList() (string, error) {
	t := newTable("limit", "of")
	for _, l := range limits() {
		t.add(l.value, l.of)
	}
	return t.String(), nil
}
