package server

import (
	"maps"

	"mailroom"
	"mailroom/internal/filter"
)

// boundTable is by schema and field, and for parameters by their kind and name; [] is an
// element of a list.
type boundTable map[string]bound

func tableOfBounds() boundTable {
	all := boundTable{}
	for _, part := range []boundTable{boundsOfSubmits(), boundsOfWork(), boundsOfProjects(), boundsOfParameters()} {
		maps.Copy(all, part)
	}
	return all
}

func boundsOfSubmits() boundTable {
	return boundTable{
		"Submit.thread": ruled(mailroom.MaxThreadID), "Submit.text": sized(mailroom.MaxText), "Submit.parts": listOf(mailroom.MaxParts),
		"Submit.messages": listOf(mailroom.MaxMessages), "Submit.agent": upTo(mailroom.MaxName), "Submit.agent_version": upTo(mailroom.MaxLabel),
		"Submit.mode": ruled(maxWord), "Submit.key": ruled(mailroom.MaxSubmitKey), "Submit.expect_run": upTo(maxID),
		"Submit.options": sized(mailroom.MaxOptions), "Submit.parent": upTo(maxID), "Submit.metadata": sized(mailroom.MaxMetadata),
		"Submit.sender": upTo(maxPerson), "Submit.decisions": listOf(maxDecisions),
		"SubmitDecision.ticket": upTo(maxID), "SubmitDecision.answer": sized(mailroom.MaxAnswer),
		"SubmitDecision.reason": sized(mailroom.MaxAnswer), "SubmitDecision.digest": upTo(maxDigest),
		"NewMessage.role": ruled(maxWord), "NewMessage.text": sized(mailroom.MaxText), "NewMessage.parts": listOf(mailroom.MaxParts), "NewMessage.visibility": ruled(maxWord),
		"Part.type": ruled(maxWord), "Part.text": sized(mailroom.MaxText), "Part.data": sized(mailroom.MaxText), "Part.uri": ruled(mailroom.MaxURI),
		"Part.name": ruled(mailroom.MaxLabel), "Part.mime_type": ruled(mailroom.MaxLabel),
		"Edit.text": sized(mailroom.MaxText), "Edit.parts": listOf(mailroom.MaxParts),
		"ThreadPatch.agent": upTo(mailroom.MaxName), "ThreadPatch.deliver_to": ruled(mailroom.MaxThreadID), "ThreadPatch.metadata": sized(mailroom.MaxMetadata),
		"Decision.answer": sized(mailroom.MaxAnswer), "Decision.reason": sized(mailroom.MaxAnswer), "Decision.digest": ruled(maxDigest), "Decision.decided_by": upTo(maxPerson),
		"RetryMany.q": ruled(filter.MaxLength),
	}
}

func boundsOfWork() boundTable {
	return boundTable{
		"ClaimRequest.agents": {items: maxAgents, ruled: true}, "ClaimRequest.worker": upTo(maxID), "ClaimRequest.wait": upTo(maxDuration),
		"Renewal.held[]": upTo(maxID),
		"Text.message":   upTo(maxID), "Text.text": sized(mailroom.MaxText),
		"AgentEntry.kind": upTo(mailroom.MaxLabel), "AgentEntry.body": sized(mailroom.MaxNote),
		"PartialText.id": upTo(maxID), "PartialText.text": sized(mailroom.MaxText),
		"Step.name": upTo(mailroom.MaxLabel), "Step.checkpoint": sized(mailroom.MaxCheckpoint), "Step.state": sized(mailroom.MaxState), "Step.sends": listOf(mailroom.MaxSends),
		"Send.name": upTo(mailroom.MaxSubmitKey), "Send.thread": ruled(mailroom.MaxThreadID), "Send.agent": upTo(mailroom.MaxName),
		"Send.text": sized(mailroom.MaxText), "Send.parts": listOf(mailroom.MaxParts),
		"Ask.name": sized(mailroom.MaxAnswer), "Ask.prompt": sized(mailroom.MaxAnswer), "Ask.action": sized(mailroom.MaxAnswer),
		"Ask.arguments": sized(mailroom.MaxAnswer), "Ask.after": upTo(maxDuration),
		"Settle.text": sized(mailroom.MaxText), "WaitFor.names[]": upTo(mailroom.MaxAnswer),
		"Failure.message": upTo(mailroom.MaxText), "Failure.retry_after": upTo(maxDuration),
	}
}

func boundsOfProjects() boundTable {
	return boundTable{
		"Notify.project": ruled(mailroom.MaxProject), "Notify.from": ruled(mailroom.MaxName), "Notify.to": listOf(mailroom.MaxTo), "Notify.to[]": ruled(mailroom.MaxName),
		"Notify.event": ruled(mailroom.MaxEvent), "Notify.data": sized(mailroom.MaxData), "Notify.key": ruled(mailroom.MaxSubmitKey),
		"Take.project": ruled(mailroom.MaxProject), "Take.agent": ruled(mailroom.MaxName),
		"Acknowledge.project": ruled(mailroom.MaxProject), "Acknowledge.agent": ruled(mailroom.MaxName),
		"Reserve.project": ruled(mailroom.MaxProject), "Reserve.names": listOf(mailroom.MaxReserve), "Reserve.names[]": ruled(mailroom.MaxReservationName),
		"Reserve.holder": ruled(mailroom.MaxName), "Reserve.reason": ruled(mailroom.MaxReason), "Reserve.ttl": upTo(maxDuration),
		"ReservationRenewal.ttl": upTo(maxDuration),
		"ReleaseNames.project":   ruled(mailroom.MaxProject), "ReleaseNames.holder": upTo(mailroom.MaxName),
		"ReleaseNames.names": listOf(mailroom.MaxReserve), "ReleaseNames.names[]": upTo(mailroom.MaxReservationName),
		"ApprovePairing.channel": upTo(mailroom.MaxName),
		"NewToken.name":          ruled(mailroom.MaxTokenName), "NewToken.namespace": upTo(mailroom.MaxThreadID), "NewToken.scopes": listOf(len(mailroom.Permissions())),
		"NewToken.agents": listOf(maxAgents), "NewToken.agents[]": upTo(mailroom.MaxName),
		"NewToken.quotas": {items: len(mailroom.AllQuotas()), ruled: true}, "TokenPatch.quotas": {items: len(mailroom.AllQuotas()), ruled: true},
	}
}

func boundsOfParameters() boundTable {
	return boundTable{
		"path.thread": ruled(mailroom.MaxThreadID), "path.run": upTo(maxID), "path.message": upTo(maxID), "path.ticket": upTo(maxID),
		"path.claim": upTo(maxID), "path.worker": upTo(maxID), "path.reservation": upTo(maxID),
		"path.name": upTo(mailroom.MaxName), "path.channel": upTo(mailroom.MaxName), "path.user": upTo(maxPerson),
		"header.Idempotency-Key": ruled(mailroom.MaxSubmitKey), "header.Last-Event-ID": ruled(maxPlace),
		"query.after": ruled(maxPlace), "query.before": upTo(maxID), "query.cursor": upTo(maxPageCursor), "query.q": ruled(filter.MaxLength),
		"query.kind": listOf(maxKinds), "query.kind[]": upTo(mailroom.MaxLabel), "query.run": upTo(maxID),
		"query.project": ruled(mailroom.MaxProject), "query.agent": upTo(mailroom.MaxName), "query.timeout": upTo(maxDuration),
	}
}
