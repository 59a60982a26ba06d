package doctor_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/doctor"
	"mailroom/entry"
	"mailroom/internal/digest"
	"mailroom/internal/reserved"
	"mailroom/internal/retry"
	"mailroom/store"
	"mailroom/thread"
)

func logViolations() []violation {
	const (
		message  = entry.KindMessage
		wasQ     = entry.KindQueued
		wasStart = entry.KindStarted
	)
	return []violation{
		{"a gap", func(r *rows) { r.cut(r.entry(entry.KindStep, "done", 1)) }, doctor.Seq, "follows entry"},
		{"an end cut off", func(r *rows) { r.thread("t").LastSeq++ }, doctor.Seq, "the log ends at entry"},
		{"an entry too many", func(r *rows) { r.thread("kid").LastSeq-- }, doctor.Seq, "is not between first_seq, 1, and last_seq, 1"},
		{"an entry before the first", func(r *rows) { r.thread("kid").FirstSeq++ }, doctor.Seq, "is not between first_seq, 2, and last_seq, 2"},
		{"a log before its beginning", func(r *rows) { r.thread("kid").FirstSeq = 0 }, doctor.Seq, "first_seq is 0"},
		{"a body that cannot be read", func(r *rows) {
			r.replace(r.entry(wasQ, "q1", 1), func(e *mailroom.Entry) { e.Body = json.RawMessage(`"x"`) })
		}, doctor.Seq, "is unreadable"},
		{"two at a time", func(r *rows) {
			r.another(wasStart, "q1", 1, entry.RunStarted{})
		}, doctor.Current, "starts run q1 before the end of run now"},
		{"an end without a row", func(r *rows) { r.another(entry.KindCompleted, "now", 2, entry.RunCompleted{}) },
			doctor.Current, `the log leaves run "" open, the current run is "now"`},
		{"a second end", func(r *rows) { r.another(entry.KindCompleted, "done", 1, entry.RunCompleted{}) },
			doctor.Log, "run.completed of run done, comes while the run is completed"},
		{"a step after the end", func(r *rows) { r.another(entry.KindStep, "done", 1, entry.StepNamed{}) },
			doctor.Log, "step of run done, comes while the run is completed"},
		{"a start without a submit", func(r *rows) {
			r.cut(r.entry(wasQ, "dead", 1))
		}, doctor.Log, "run.started of run dead, comes while the run is not queued yet"},
		{"an attempt of the past", func(r *rows) {
			r.another(entry.KindStep, "now", 1, entry.StepNamed{})
		}, doctor.Attempt, "has attempt 1, which should be 2"},
		{"an attempt of the future", func(r *rows) {
			r.another(entry.KindStep, "now", 3, entry.StepNamed{})
		}, doctor.Attempt, "has attempt 3, which should be 2"},
		{"an entry of an unknown run", func(r *rows) {
			r.another(entry.KindStep, "ghost", 0, entry.StepNamed{})
		}, doctor.Log, "the log names run ghost, which does not exist"},
		{"a run of no entry", func(r *rows) {
			run := *r.run("q1")
			run.ID, run.Place, run.FirstSeq = "silent", r.thread("t").NextPlace, r.thread("t").LastSeq+1
			r.thread("t").NextPlace++
			r.Runs = append(r.Runs, &run)
		}, doctor.Log, "no entry names run silent"},
		{"a run without a row", func(r *rows) { r.dropRun("dead") }, doctor.Log, "the log names run dead, which does not exist"},
		{"out of turn", func(r *rows) {
			r.body(r.entry(wasQ, "off", 1), "priority", 0)
			r.cutAfterwards("off")
		}, doctor.Order, "before run off, which was next"},
		{"a message of another run", func(r *rows) { r.body(r.entry(message, "q1", 1), "run", "q2") }, doctor.Message, "claims to be entry"},
		{"a message with another's id", func(r *rows) {
			r.body(r.entry(message, "q1", 1), "id", "q1.1")
		}, doctor.Message, "message q1.1 is at entry"},
		{"a steered message that vanished", func(r *rows) {
			r.run("now").Steers = nil
		}, doctor.Steer, "was steered to run now, which never read it"},
		{"a steered message that was never sent", func(r *rows) {
			s := &r.run("now").Steers[0]
			s.Message, s.Own.ID = strings.Replace(s.Message, "aside", "other", 1), "other"
		}, doctor.Steer, "which differs from the log"},
		{"a steered message read twice", func(r *rows) {
			ref := entry.MessageRef{Message: r.run("now").Steers[0].Message}
			r.another(entry.KindMessageRead, "now", 2, ref)
			r.another(entry.KindMessageRead, "now", 2, ref)
		}, doctor.Steer, "which is not unread in run now"},
		{"a steered message of a run that is not current", func(r *rows) {
			r.run("q1").Steers = r.run("now").Steers
		}, doctor.Steer, "and is not the current one"},
		{"a send to nowhere", func(r *rows) {
			r.body(r.entry(entry.KindSend, "done", 1), "run", "ghost")
		}, doctor.Send, `sent run ghost to thread "far", where it does not exist`},
	}
}

// cutAfterwards removes the end of a run from the log, so that the log leaves it waiting.
func (r *rows) cutAfterwards(run string) {
	e := r.entry(entry.KindCancelled, run, 1)
	r.replace(e, func(e *mailroom.Entry) { e.Kind, e.Run = entry.KindEdited, "done" })
}

func blobViolations() []violation {
	return []violation{
		{"a blob without its row", func(r *rows) { r.Blobs = r.Blobs[1:] }, doctor.Blob, "belong to no blob"},
		{"a blob without a piece", func(r *rows) {
			r.BlobPieces = slices.DeleteFunc(r.BlobPieces, func(p store.BlobPiece) bool { return p.Number == 1 })
		}, doctor.Blob, "has 262147 bytes in 2 pieces, which should be 524291 in 3"},
		{"a blob without any piece", func(r *rows) {
			r.BlobPieces = slices.DeleteFunc(r.BlobPieces, func(p store.BlobPiece) bool { return p.Upload == r.Blobs[1].Upload })
		}, doctor.Blob, "the 5 bytes of upload now:2:"},
		{"a piece cut", func(r *rows) { r.BlobPieces[0].Body = []byte("x") }, doctor.Blob, "bytes in"},
		{"another content", func(r *rows) {
			i := slices.IndexFunc(r.BlobPieces, func(p store.BlobPiece) bool { return p.Number == 2 })
			r.BlobPieces[i].Body = bytes.ToUpper(r.BlobPieces[i].Body)
		}, doctor.Blob, `the content of blob "long" of agent "a" has the digest`},
		{"two blobs of one upload", func(r *rows) {
			b := r.Blobs[0]
			b.Name = "again"
			r.Blobs = append(r.Blobs, b)
		}, doctor.Blob, `has the pieces of another blob`},
		{"blobs that are not counted", func(r *rows) { r.thread("t").BlobBytes = nil }, doctor.Blob, `its row says 0`},
		{"blobs counted wrongly", func(r *rows) {
			r.thread("t").BlobBytes = map[string]int64{"a": 5, "": 517}
		}, doctor.Blob, "its row says 5"},
		{"an upload that its thread does not name", func(r *rows) {
			r.thread("t").Uploads = nil
		}, doctor.Blob, "5 bytes of upload now:2:"},
		{"an upload of another size", func(r *rows) {
			r.thread("t").Uploads[0].Size = 4
		}, doctor.Blob, "has 5 bytes in 1 pieces, which should be 4 in 1"},
		{"too many blobs", func(r *rows) {
			r.thread("t").BlobBytes["a"] = mailroom.MaxBlobs + 1
		}, doctor.Limit, "the limit is 67108864"},
	}
}

func runViolations() []violation {
	return []violation{
		{"another status", func(r *rows) { r.run("done").Status = mailroom.StatusCancelled }, doctor.Log, "run done is cancelled, the log leaves it completed"},
		{"a queued run with an attempt", func(r *rows) { r.run("q1").StartedAt = time.Now() }, doctor.Log, "run q1 is queued between attempts, the log leaves it queued"},
		{"another reply", func(r *rows) { other := "ill"; r.run("done").Reply = &other }, doctor.Log, "run done is completed with a reply"},
		{"another error", func(r *rows) { r.run("dead").Error.Message = "yes" }, doctor.Log, "run dead is failed with a reply, error or reason"},
		{"no error", func(r *rows) { r.run("dead").Error = nil }, doctor.Log, "run dead failed without an error"},
		{"an error group without a failure", func(r *rows) { r.run("off").ErrorGroup = "1f" }, doctor.Log, "run off is cancelled and has the error group 1f"},
		{"an error to retry after without an attempt", func(r *rows) { r.run("q1").LastError = &mailroom.RunError{Class: mailroom.ClassTransient} }, doctor.Log, "run q1 waits for a retry"},
		{"another reason", func(r *rows) { r.run("off").Reason = mailroom.ReasonSuperseded }, doctor.Log, "run off is cancelled with a reply, error or reason"},
		{"another start", func(r *rows) { r.run("done").StartedAt = time.Now() }, doctor.Log, "the log differs"},
		{"a stop of a queued run", func(r *rows) { r.run("q1").Stop = mailroom.ReasonCancelled }, doctor.Log, "run q1 was asked to stop (cancelled) and is queued"},
		{"a stop without an entry", func(r *rows) { r.run("now").Stop = mailroom.ReasonCancelled }, doctor.Log, `run now has the request to stop "cancelled", the log has ""`},
		{"older than its log", func(r *rows) { r.run("done").FirstSeq = 0 }, doctor.Log, "run done begins at 0, before the first entry kept, 1"},
		{"another attempt", func(r *rows) { r.run("now").Attempt = 3 }, doctor.Attempt, "run now is at attempt 3, the log at 2"},
		{"a failure of its own", func(r *rows) { r.run("now").Failures = 1 }, doctor.Attempt, "has 1 failures and 0 lost claims, the log has 0 and 0"},
		{"failures without end", func(r *rows) { r.run("now").Failures = 5 }, doctor.Attempt, "is running with 5 failures; at 5 it is a dead letter"},
		{"crashes without end", func(r *rows) { r.run("now").Crashes = 3 }, doctor.Attempt, "with 3 crashes; at 3"},
		{"crashes that were not lost", func(r *rows) { r.run("now").Crashes = 1 }, doctor.Attempt, "has 1 crashes in a row but only 0 lost claims"},
		{"a step of the future", func(r *rows) { r.run("now").LastStep.Attempt = 9 }, doctor.Attempt, "has last step 2 of attempt 9"},
		{"a place twice", func(r *rows) { r.run("q1").Place = r.run("q2").Place }, doctor.Order, "have the same place"},
		{"a place of the future", func(r *rows) { r.run("q1").Place = 99 }, doctor.Order, "run q1 has place 99, the next one of the thread is"},
		{"a wait without end", func(r *rows) {
			q := r.run("q1")
			q.Scheduled, q.Joins, q.NotBefore = true, true, q.CreatedAt.Add(11*time.Second)
		}, doctor.Limit, "for more messages, which should be at most 10s"},
		{"put off and running", func(r *rows) { r.run("now").Scheduled = true }, doctor.Order, "run now is scheduled for no time but is running"},
		{"another's message", func(r *rows) { r.run("q1").Inputs[0].Seq = 1 }, doctor.Message, "at entry 1, which has a different message"},
		{"started for another message", func(r *rows) { r.run("done").Inputs = r.run("q1").Inputs }, doctor.Message, "was started with messages other than"},
		{"started without its messages", func(r *rows) { r.run("done").Started = false }, doctor.Message, "says started=false"},
		{"queued for nothing", func(r *rows) { r.run("q1").Inputs[0].Retracted = true }, doctor.Message, "run q1 is queued without a message"},
		{"flushed text of a run that ended", func(r *rows) {
			for i := range r.Partials {
				r.Partials[i].Run = "done"
			}
		}, doctor.Partial, "run done is completed and has flushed text"},
		{"a run without its flushed text", func(r *rows) { r.run("now").Flushed = false }, doctor.Partial, "its row says flushed=false"},
		{"a hole in flushed text", func(r *rows) { r.Partials[1].Offset = 6 }, doctor.Partial, "has a piece of message now.2-1 at 6; one of message now.2-1 at 5 is expected"},
		{"flushed text of two messages", func(r *rows) { r.Partials[1].Message = "other" }, doctor.Partial, "a piece of message other"},
		{"flushed text of another attempt", func(r *rows) { r.Partials[1].Attempt = 1 }, doctor.Partial, "is of attempt 1"},
		{"a key forgotten", func(r *rows) { r.Keys = nil }, doctor.Key, `key "k" of run done is not remembered`},
		{"a key of two runs", func(r *rows) { r.run("q1").SubmitKey = "k" }, doctor.Key, `key "k" of run q1 is remembered for message done.1, which made run done`},
		{"a key that answers with another run", func(r *rows) { r.Keys[len(r.Keys)-1].Result.Run = "q1" }, doctor.Key, "answers with run q1"},
		{"a key that answers with another entry", func(r *rows) { r.Keys[len(r.Keys)-1].Result.Seq = 99 }, doctor.Key, "answers with entry 99"},
		{"a length forgotten", func(r *rows) { r.thread("t").Bytes = 7 }, doctor.Use, "its row says 7"},
		{"the length of messages forgotten", func(r *rows) { r.run("q1").InputBytes = 7 }, doctor.Use, "of run q1 have"},
		{"a use forgotten", func(r *rows) { r.Tokens = []*auth.Token{{Name: "admin"}} }, doctor.Use, "its row says 0 threads of 0 bytes, 0 unread notifications"},
		{"a priority beyond the last", func(r *rows) { r.run("off").Priority = 256 }, doctor.Limit, "the priority is 256, which should be between 0 and 255"},
		{"a first delay without a longest", func(r *rows) { r.run("off").RetryFirst = time.Second }, doctor.Limit, "its retries are delayed by 1s to 0s"},
		{"delays that shrink", func(r *rows) { r.run("off").RetryFirst, r.run("off").RetryMost = time.Minute, time.Second },
			doctor.Limit, "its retries are delayed by 1m to 1s"},
		{"a factor that shrinks delays", func(r *rows) { r.run("off").RetryFactor = 0.5 }, doctor.Limit, "its last claim has factor: 0.5 is not"},
		{"a submit with an unreadable policy", func(r *rows) { r.run("off").SubmitRetry = "first=soon" }, doctor.Limit, "the retry policy of its submit has"},
		{"a delay beyond the longest", func(r *rows) { r.run("off").RetryFirst, r.run("off").RetryMost = time.Second, retry.MaxDelay+1 },
			doctor.Limit, "its retries are delayed by 1s to 8760h0m0.000000001s, which should be both zero, or at most 8760h and"},
		{"time to spare without a claim", func(r *rows) { r.run("off").ClaimSpare = time.Second }, doctor.Limit, "1s to spare"},
		{"a wait without a claim", func(r *rows) { r.run("off").WaitsOn = "tests" }, doctor.Limit, `says that it waits for "tests"`},
		{"time overspent", func(r *rows) { r.run("now").ClaimSpare = -time.Second }, doctor.Limit, "its claim has -1s to spare"},
		{"a part that was not lent", func(r *rows) {
			r.run("q1").Budget = &mailroom.RunBudget{Lent: mailroom.Amounts{Turns: 3}}
		}, doctor.Budget, "run q1 has lent 3 turns of its budget, the open runs that it sent have nothing"},
		{"a part that did not come back", func(r *rows) {
			r.run("done").Budget = &mailroom.RunBudget{Lender: "q1", Part: mailroom.Amounts{Turns: 3}}
		}, doctor.Budget, "run done has ended, and has 3 turns of the budget of run q1"},
		{"a part of nothing", func(r *rows) {
			r.run("q2").Budget = &mailroom.RunBudget{Lender: "q1", Part: mailroom.Amounts{Turns: 3}}
			r.run("q1").Budget = &mailroom.RunBudget{}
		}, doctor.Budget, "run q2 has 3 turns of the budget of run q1, which has lent nothing"},
		{"a checkpoint too large", func(r *rows) { r.run("off").Checkpoint = make([]byte, mailroom.MaxCheckpoint+1) }, doctor.Limit, "the size of its checkpoint is 262145"},
	}
}

func limitViolations() []violation {
	return []violation{
		{"a run that ended is counted", func(r *rows) { r.Meters = []store.Meter{{Key: "limit:agent:a", Count: 2}} },
			doctor.Count, `0 running runs count for "limit:agent:a", its meter says 2`},
		{"a running run is not counted", func(r *rows) { r.thread("t").Meters = []string{"limit:owner:ann"} },
			doctor.Count, `1 running runs count for "limit:owner:ann", its meter says 0`},
		{"a thread that waits is not counted", func(r *rows) { r.thread("kid").Gate = "#gate b" },
			doctor.Count, `1 threads wait for a place of "limit:key:#gate b", its meter says 0`},
		{"a thread waits for a place that is free", func(r *rows) {
			r.thread("kid").Gate, r.Meters = "#gate b", []store.Meter{{Key: "limit:key:#gate b", Turns: 1}}
		}, doctor.Due, `1 threads wait for a place of "limit:key:#gate b", which no run has`},
		{"a kept place is not counted", func(r *rows) { r.thread("kid").Gate, r.thread("kid").Kept = "#gate b", true },
			doctor.Count, `1 running runs count for "limit:key:#gate b", its meter says 0`},
		{"a kept start is not counted", func(r *rows) {
			kid := r.thread("kid")
			kid.Gate, kid.Kept, kid.Paced = "#gate b", true, true
			r.Meters = []store.Meter{{Key: "limit:key:#gate b", Count: 1}}
		}, doctor.Count, `1 starts of "limit:key:#gate b" are kept for threads, its meter says 0`},
		{"a start is kept for no thread", func(r *rows) { r.Meters = []store.Meter{{Key: "limit:key:#gate b", Tokens: 1}} },
			doctor.Count, `0 starts of "limit:key:#gate b" are kept for threads, its meter says 1`},
	}
}

func threadViolations() []violation {
	return []violation{
		{"a thread without an owner", func(r *rows) { r.thread("t").Owner = "" }, doctor.Owner, "it has no owner"},
		{"no current run", func(r *rows) { r.thread("t").Current = "" }, doctor.Current, `worker "w" and round`},
		{"a current run without a row", func(r *rows) {
			r.thread("t").Current = "ghost"
		}, doctor.Current, "the current run ghost does not exist"},
		{"a current run that has ended", func(r *rows) { r.thread("t").Current = "done" }, doctor.Current, "the current run done is completed"},
		{"a current run that never started", func(r *rows) {
			r.thread("t").Current = "q1"
		}, doctor.Current, "the current run q1 has not started"},
		{"a running run without a worker", func(r *rows) {
			r.thread("t").Worker = ""
		}, doctor.Current, `the worker is "" while the current run now is running`},
		{"a worker without a row", func(r *rows) { r.Workers = nil }, doctor.Claim, "run now is held by worker w, which does not exist"},
		{"due while it runs", func(r *rows) { r.thread("t").Due = r.thread("kid").Due }, doctor.Due, "its runs say the claim ends at"},
		{"never due", func(r *rows) {
			r.thread("kid").Due = mailroom.Due{}
		}, doctor.Due, `its row says nothing is due, its runs say a run of agent "b" with priority 128 is due`},
		{"due on any server", func(r *rows) {
			kid := r.thread("kid")
			kid.Nodes, kid.State = map[string]string{"b": "north"}, map[string]json.RawMessage{"b": json.RawMessage("{}")}
		}, doctor.Due, `its runs say a run of agent "b" with priority 128 is due on server "north"`},
		{"a session without state", func(r *rows) {
			r.thread("t").Nodes = map[string]string{"a": "north"}
		}, doctor.Due, `runs of agent "a" must start on server "north"`},
		{"due for another agent", func(r *rows) { r.thread("kid").Due.Agent = "c" }, doctor.Due, `its row says a run of agent "c"`},
		{"due too late", func(r *rows) { r.thread("kid").Due.At = time.Now().Add(time.Hour) }, doctor.Due, "its row says"},
		{"an expiry that is not due", func(r *rows) { r.thread("p").Due = mailroom.Due{} }, doctor.Due, "its row says nothing is due"},
		{"held runs forgotten", func(r *rows) { r.thread("t").HeldAt = time.Time{} }, doctor.Due, "is due at no time by its row"},
		{"a loop of deliveries", func(r *rows) { r.thread("t").DeliverTo = "t" }, doctor.Send, "it delivers to itself"},
		{"a chain of deliveries", func(r *rows) {
			r.thread("t").DeliverTo, r.thread("p").DeliverTo = "p", "kid"
		}, doctor.Send, `it delivers to thread "p", which itself delivers to "kid"`},
		{"a schedule that nothing wakes", func(r *rows) { r.schedule("schedule:admin:report", `{}`) },
			doctor.Schedule, "run `mailroom schedule resume report`"},
		{"a schedule of a token that nothing wakes", func(r *rows) { r.schedule("schedule:ann:report", `{}`) },
			doctor.Schedule, "run `mailroom schedule resume report --owner ann`"},
		{"an id with a slash", func(r *rows) {
			r.Threads = append(r.Threads, &mailroom.Thread{ID: "a/b", Owner: "ann", FirstSeq: 1, NextPlace: 1})
		}, doctor.Limit, `"a/b" is not a valid thread id`},
		{"a state too large", func(r *rows) {
			r.thread("t").State = map[string]json.RawMessage{"a": make([]byte, mailroom.MaxState+1)}
		}, doctor.Limit, "the state of agent"},
		{"metadata too large", func(r *rows) { r.thread("t").Metadata = make([]byte, mailroom.MaxMetadata+1) }, doctor.Limit, "the metadata has"},
	}
}

func reservationViolations() []violation {
	return []violation{
		{"without rows", func(r *rows) { r.Reservations = nil }, doctor.Reserve, "made by entry 1, has no row"},
		{"never taken", func(r *rows) {
			r.Reservations[0].ID = "other"
		}, doctor.Reserve, "reservation other has fence 1, but that entry does not make it"},
		{"another fence", func(r *rows) { r.Reservations[0].Fence = 2 }, doctor.Reserve, "has fence 2, but that entry does not make it"},
		{"still there", func(r *rows) { r.cut(r.entry(entry.KindReleased, "", 1)) }, doctor.Reserve, "made by entry 2, has no row"},
		{"ended and not taken", func(r *rows) {
			r.replace(r.entry(entry.KindReserved, "", 2), func(e *mailroom.Entry) { e.Kind = entry.KindChannel })
		}, doctor.Reserve, "which is not held"},
		{"two overlapping ones", func(r *rows) {
			other := r.Reservations[0]
			other.ID, other.Holder, other.Name = "other", "y", "?"
			r.Reservations = append(r.Reservations, other)
		}, doctor.Reserve, "of y overlap"},
		{"with a run", func(r *rows) {
			r.replace(r.entry(entry.KindNotification, "", 1), func(e *mailroom.Entry) { e.Run = "done" })
		}, doctor.Log, "names run done but belongs to the thread"},
	}
}

func ticketViolations() []violation {
	return []violation{
		{"open for an ended run", func(r *rows) {
			r.ticket("done", "ok").State = mailroom.TicketOpen
		}, doctor.Ticket, "is open but its run done is completed"},
		{"under another name", func(r *rows) {
			r.ticket("now", "ok").Name = "yes"
		}, doctor.Ticket, `does not have the id of ticket "yes" of run now`},
		{"without its entry", func(r *rows) { r.cut(r.entry(entry.KindTicketOpened, "now", 1)) }, doctor.Ticket, "no entry opens ticket"},
		{"without a run", func(r *rows) { r.Tickets = r.Tickets[:len(r.Tickets)-1] }, doctor.Ticket, "of run done, which does not exist"},
		{"not counted", func(r *rows) { r.run("now").Asked = 0 }, doctor.Ticket, "the row of run now counts 0 opened tickets, the log has 1"},
		{"decided without an entry", func(r *rows) {
			k, now := r.ticket("now", "ok"), time.Now()
			k.State, k.Decision, k.DecidedAt = mailroom.TicketDecided, mailroom.VerdictDeny, &now
		}, doctor.Ticket, "of run now is decided, deny, by the log open"},
		{"decided the other way", func(r *rows) {
			r.ticket("done", "ok").Decision = mailroom.VerdictDeny
		}, doctor.Ticket, "is decided, deny, by the log decided, approve"},
		{"decided twice", func(r *rows) {
			r.another(entry.KindTicketDecided, "now", 2, entry.TicketDecision{Ticket: thread.TicketID("now", "ok")})
			r.another(entry.KindTicketDecided, "now", 2, entry.TicketDecision{Ticket: thread.TicketID("now", "ok")})
		}, doctor.Ticket, "which is already decided"},
		{"decided and never opened", func(r *rows) {
			r.another(entry.KindTicketDecided, "now", 2, entry.TicketDecision{Ticket: "other"})
		}, doctor.Ticket, "about ticket other of run now, which was never opened"},
		{"decided after the end", func(r *rows) {
			r.another(entry.KindTicketDecided, "done", 1, entry.TicketDecision{Ticket: thread.TicketID("done", "ok")})
		}, doctor.Ticket, "of run done, which is completed"},
		{"opened twice", func(r *rows) {
			r.another(entry.KindTicketOpened, "now", 2, mailroom.Ticket{ID: thread.TicketID("now", "ok")})
		}, doctor.Ticket, "of run now again while it is open"},
		{"decided too late", func(r *rows) {
			at := r.ticket("done", "ok").ExpiresAt.Add(time.Second)
			r.ticket("done", "ok").DecidedAt = &at
		}, doctor.Ticket, "after it expired at"},
		{"decided at no time", func(r *rows) { r.ticket("done", "ok").DecidedAt = nil }, doctor.Ticket, "is decided but has no time"},
		{"open and decided", func(r *rows) { now := time.Now(); r.ticket("now", "ok").DecidedAt = &now }, doctor.Ticket, "is open but was decided at"},
		{"a decision that does not fit", func(r *rows) {
			r.ticket("done", "ok").Decision = mailroom.VerdictAnswer
		}, doctor.Ticket, `of kind approval has the decision "answer"`},
		{"another time", func(r *rows) { k := r.ticket("now", "ok"); k.OpenedAt = k.OpenedAt.Add(time.Second) }, doctor.Ticket, "the log differs"},
		{"another question", func(r *rows) { r.ticket("now", "ok").Prompt = "may I not?" }, doctor.Ticket, "has the digest"},
		{"a timer without a time", func(r *rows) { k := r.ticket("now", "ok"); k.Kind, k.ExpiresAt = mailroom.TicketTimer, nil }, doctor.Ticket, "is a timer without an expiry"},
		{"parked without a wait", func(r *rows) { r.run("parent").Wait = nil }, doctor.Wait, "run parent is waiting for nothing"},
		{"parked for an unknown ticket", func(r *rows) {
			r.run("parent").Wait.Names[0] = "yes"
		}, doctor.Wait, `is waiting for "yes", which is not a ticket of it`},
		{"parked although the wait is over", func(r *rows) {
			r.run("parent").Wait.Any = true
			r.ticket("parent", "ok").State = mailroom.TicketExpired
		}, doctor.Wait, "which is over"},
		{"queued with a wait", func(r *rows) {
			r.run("q1").Wait = &mailroom.Wait{Names: []string{"x"}}
		}, doctor.Wait, `run q1 is queued but waits for ["x"]`},
		{"ended and marked to resume", func(r *rows) { r.run("done").Resumes = true }, doctor.Wait, "run done is completed but marked to resume"},
		{"an ended child", func(r *rows) {
			r.run(digest.ID("send", "parent", "help")).Status = mailroom.StatusCompleted
		}, doctor.Child, `waits for the child "help" of run parent, which has no unfinished run`},
		{"a child without a ticket", func(r *rows) {
			r.run(digest.ID("send", "parent", "help")).Caller.Name = "other"
		}, doctor.Child, `is the child "other" of run parent, which has no ticket for it`},
	}
}

func notificationViolations() []violation {
	return []violation{
		{"an uncounted inbox", func(r *rows) { r.thread("project:p").Inboxes = 7 }, doctor.Use, "it has 2 inboxes, its row says 7"},
		{"uncounted unread notifications", func(r *rows) {
			r.thread("project:p").Unread = nil
		}, doctor.Use, "hold unread notifications map[admin:1], its row says map[]"},
		{"unread notifications of another token", func(r *rows) {
			r.thread("project:p").Unread = map[string]int64{"ann": 1}
		}, doctor.Use, "its row says map[ann:1]"},
		{"a missing position", func(r *rows) { r.Cursors = nil }, doctor.Use, "it has 0 inboxes, its row says 2"},
		{"lapsed beyond the log", func(r *rows) { r.thread("project:p").Lapsed = 99 }, doctor.Use, "its row says that entries up to 99 lapsed"},
		{"inboxes of no project", func(r *rows) { r.thread("t").Inboxes = 1 }, doctor.Use, "its row has 1 inboxes, but it is not a project"},
	}
}

// schedule adds the thread of a schedule that waits for a message, but for what its state has too.
func (r *rows) schedule(id, more string) {
	state := map[string]any{"tick": time.Now().Add(time.Hour)}
	if err := json.Unmarshal([]byte(more), &state); err != nil {
		panic(err)
	}
	raw, err := json.Marshal(state)
	if err != nil {
		panic(err)
	}
	owner, _ := reserved.SchedulePlace(id)
	r.Threads = append(r.Threads, &mailroom.Thread{ID: id, Owner: owner, FirstSeq: 1, NextPlace: 1,
		State: map[string]json.RawMessage{reserved.Scheduler: raw}})
}
