package server

import (
	"maps"

	"mailroom"
	"mailroom/auth"
	"mailroom/project"
	"mailroom/schedule/plan"
	"mailroom/server/internal/request"
	"mailroom/server/workers"
	"mailroom/thread"
)

// boundTable maps a schema's field, such as "Submit.text", or a parameter, such as "path.run", to
// its bound. "[]" at the end means an element of the list.
type boundTable map[string]bound

func allBounds() boundTable {
	all := boundTable{}
	for _, part := range []boundTable{boundsOfSubmits(), boundsOfWork(), boundsOfProjects(), boundsOfSchedules(),
		boundsOfParameters()} {
		maps.Copy(all, part)
	}
	return all
}

func boundsOfSubmits() boundTable {
	return boundTable{
		"Submit.thread": byRule(mailroom.MaxThreadID), "Submit.text": maxJSON(mailroom.MaxText),
		"Submit.parts":    maxItems(mailroom.MaxParts),
		"Submit.messages": maxItems(mailroom.MaxMessages), "Submit.agent": maxChars(project.MaxName),
		"Submit.agent_version": maxChars(mailroom.MaxLabel),
		"Submit.mode":          byRule(maxKeyword), "Submit.deadline": maxChars(maxDuration),
		"Submit.key": byRule(mailroom.MaxSubmitKey), "Submit.concurrency_key": byRule(mailroom.MaxKey),
		"Submit.expect_run": maxChars(maxID),
		"Submit.options":    maxJSON(mailroom.MaxOptions), "Submit.parent": maxChars(maxID),
		"Submit.metadata": maxJSON(mailroom.MaxMetadata),
		"Submit.sender":   maxChars(maxSender), "Submit.notify": maxChars(mailroom.MaxLabel),
		"Submit.decisions":      maxItems(maxDecisions),
		"SubmitDecision.ticket": maxChars(maxID), "SubmitDecision.answer": maxJSON(mailroom.MaxAnswer),
		"SubmitDecision.reason": maxJSON(mailroom.MaxAnswer), "SubmitDecision.digest": maxChars(maxDigest),
		"NewMessage.role": byRule(maxKeyword), "NewMessage.text": maxJSON(mailroom.MaxText),
		"NewMessage.parts": maxItems(mailroom.MaxParts), "NewMessage.visibility": byRule(maxKeyword),
		"Part.type": byRule(maxKeyword), "Part.text": maxJSON(mailroom.MaxText), "Part.data": maxJSON(mailroom.MaxText),
		"Part.uri":  byRule(mailroom.MaxURI),
		"Part.name": byRule(mailroom.MaxLabel), "Part.mime_type": byRule(mailroom.MaxLabel),
		"Edit.text": maxJSON(mailroom.MaxText), "Edit.parts": maxItems(mailroom.MaxParts),
		"ThreadPatch.agent": maxChars(project.MaxName), "ThreadPatch.deliver_to": byRule(mailroom.MaxThreadID),
		"ThreadPatch.metadata": maxJSON(mailroom.MaxMetadata),
		"Decision.answer":      maxJSON(mailroom.MaxAnswer), "Decision.reason": maxJSON(mailroom.MaxAnswer),
		"Decision.digest": byRule(maxDigest), "Decision.decided_by": maxChars(maxSender),
		"AlertRule.name": byRule(64), "AlertRule.when": maxItems(20), "AlertRule.when[]": byRule(maxKeyword),
		"AlertRule.to": maxItems(20), "AlertRule.to[]": byRule(64),
		"AlertRule.agents": maxItems(20), "AlertRule.agents[]": byRule(200), "AlertRule.threads": maxItems(20),
		"AlertRule.threads[]": byRule(200),
		"AlertRule.text":      byRule(maxKeyword), "AlertRule.quiet": byRule(maxKeyword),
		"AlertRule.digest": byRule(maxKeyword),
		"AlertRule.zone":   byRule(64), "AlertRule.outage": maxChars(maxDuration),
		"AlertRule.remind_after":  maxChars(maxDuration),
		"QuestionDecision.answer": maxJSON(mailroom.MaxAnswer), "QuestionDecision.reason": maxJSON(mailroom.MaxAnswer),
		"CancelMany.q": byRule(request.MaxFilter),
		"RetryMany.q":  byRule(request.MaxFilter),
	}
}

func boundsOfWork() boundTable {
	return boundTable{
		"ClaimRequest.agents": {items: workers.MaxAgents, byRule: true}, "ClaimRequest.worker": maxChars(maxID),
		"ClaimRequest.wait": maxChars(maxDuration),
		"RetryPolicy.first": maxChars(maxDuration), "RetryPolicy.most": maxChars(maxDuration),
		"RetryPolicy.outage_most": maxChars(maxDuration), "RetryPolicy.outage": maxChars(maxDuration),
		"Renewal.held[]": maxChars(maxID), "Leave.entered[]": maxChars(maxID),
		"Text.message": maxChars(maxID), "Text.text": maxJSON(mailroom.MaxText),
		"Text.call": maxChars(mailroom.MaxLabel), "Text.name": maxChars(mailroom.MaxLabel),
		"AgentEntry.kind": maxChars(mailroom.MaxLabel), "AgentEntry.body": maxJSON(mailroom.MaxAgentEntry),
		"PartialText.id": maxChars(maxID), "PartialText.text": maxJSON(mailroom.MaxText),
		"PartialText.parts": maxItems(mailroom.MaxParts),
		"Step.name":         maxChars(mailroom.MaxLabel), "Step.checkpoint": maxJSON(mailroom.MaxCheckpoint),
		"Step.state": maxJSON(mailroom.MaxState), "Step.sends": maxItems(mailroom.MaxSends),
		"Step.extend": maxChars(maxDuration), "Step.blobs": maxItems(thread.MaxBlobChanges),
		"BlobChange.name": byRule(mailroom.MaxBlobName), "BlobChange.upload": maxChars(2 * maxID),
		"Send.name": maxChars(mailroom.MaxSubmitKey), "Send.thread": byRule(mailroom.MaxThreadID),
		"Send.agent": maxChars(project.MaxName),
		"Send.text":  maxJSON(mailroom.MaxText), "Send.parts": maxItems(mailroom.MaxParts),
		"Send.mode": byRule(maxKeyword), "Send.not_before": maxChars(maxDuration), "Send.deadline": maxChars(maxDuration),
		"Send.options": maxJSON(mailroom.MaxOptions), "Send.metadata": maxJSON(mailroom.MaxMetadata),
		"Ask.name": maxJSON(mailroom.MaxAnswer), "Ask.prompt": maxJSON(mailroom.MaxAnswer),
		"Ask.action":    maxJSON(mailroom.MaxAnswer),
		"Ask.arguments": maxJSON(mailroom.MaxAnswer), "Ask.after": maxChars(maxDuration),
		"Settle.text": maxJSON(mailroom.MaxText), "WaitFor.names[]": maxChars(mailroom.MaxAnswer),
		"Usage.model":     maxChars(mailroom.MaxLabel),
		"Failure.message": maxChars(mailroom.MaxText), "Failure.retry_after": maxChars(maxDuration),
	}
}

func boundsOfProjects() boundTable {
	return boundTable{
		"Notify.project": byRule(project.MaxProject), "Notify.from": byRule(project.MaxName),
		"Notify.to": maxItems(project.MaxTo), "Notify.to[]": byRule(project.MaxName),
		"Notify.event": byRule(project.MaxEvent), "Notify.data": maxJSON(project.MaxData),
		"Notify.key":   byRule(mailroom.MaxSubmitKey),
		"Take.project": byRule(project.MaxProject), "Take.agent": byRule(project.MaxName),
		"Acknowledge.project": byRule(project.MaxProject), "Acknowledge.agent": byRule(project.MaxName),
		"Reserve.project": byRule(project.MaxProject), "Reserve.names": maxItems(project.MaxReserve),
		"Reserve.names[]": byRule(project.MaxReservationName),
		"Reserve.holder":  byRule(project.MaxName), "Reserve.reason": byRule(project.MaxReason),
		"Reserve.ttl":            maxChars(maxDuration),
		"ReservationRenewal.ttl": maxChars(maxDuration),
		"ReleaseNames.project":   byRule(project.MaxProject), "ReleaseNames.holder": maxChars(project.MaxName),
		"ReleaseNames.names": maxItems(project.MaxReserve), "ReleaseNames.names[]": maxChars(project.MaxReservationName),
		"ApprovePairing.channel": maxChars(project.MaxName),
		"NewToken.name":          byRule(auth.MaxTokenName), "NewToken.namespace": maxChars(mailroom.MaxThreadID),
		"NewToken.via": byRule(auth.MaxTokenName), "NewToken.scopes": maxItems(len(auth.Permissions())),
		"NewLink.scopes": maxItems(len(auth.Permissions())), "NewLimitedToken.scopes": maxItems(len(auth.Permissions())),
		"NewLimitedToken.run": maxChars(maxID), "NewLimitedToken.threads[]": byRule(mailroom.MaxThreadID),
		"NewToken.agents": maxItems(workers.MaxAgents), "NewToken.agents[]": maxChars(project.MaxName),
		"NewToken.quotas":   {items: len(auth.AllQuotas()), byRule: true},
		"NewToken.budget":   {items: 2, byRule: true},
		"TokenPatch.quotas": {items: len(auth.AllQuotas()), byRule: true},
	}
}

func boundsOfSchedules() boundTable {
	return boundTable{
		"ScheduleSpec.cron": byRule(plan.MaxCron), "ScheduleSpec.zone": maxChars(mailroom.MaxThreadID),
		"ScheduleSpec.every": maxChars(maxDuration), "ScheduleSpec.at": maxChars(maxDuration),
		"ScheduleSpec.jitter": maxChars(maxDuration), "ScheduleSpec.timeout": maxChars(maxDuration),
		"ScheduleSpec.window": maxChars(maxDuration), "ScheduleSpec.quiet": maxChars(maxDuration),
		"ScheduleSpec.silent_word": maxChars(mailroom.MaxThreadID),
		"ScheduleSpec.text":        maxJSON(plan.MaxSpec), "ScheduleSpec.options": maxJSON(plan.MaxSpec),
		"ScheduleSpec.metadata": maxJSON(plan.MaxSpec),
	}
}

func boundsOfParameters() boundTable {
	return boundTable{
		"path.thread": byRule(mailroom.MaxThreadID), "path.run": maxChars(maxID), "path.message": maxChars(maxID),
		"path.ticket": maxChars(maxID), "query.own": byRule(mailroom.MaxThreadID),
		"path.agent": maxChars(project.MaxName), "path.claim": maxChars(maxID), "path.worker": maxChars(maxID),
		"path.reservation": maxChars(maxID),
		"path.name":        maxChars(project.MaxName), "path.rule": maxChars(project.MaxName),
		"path.subscription": maxChars(maxID), "path.channel": maxChars(project.MaxName), "path.user": maxChars(maxSender),
		"header.Idempotency-Key": byRule(mailroom.MaxSubmitKey), "header.Last-Event-ID": byRule(maxStreamCursor),
		"query.after": byRule(maxStreamCursor), "query.before": maxChars(maxID), "query.cursor": maxChars(maxPageCursor),
		"query.q":    byRule(request.MaxFilter),
		"query.kind": maxItems(maxKinds), "query.kind[]": maxChars(mailroom.MaxLabel), "query.run": maxChars(maxID),
		"query.project": byRule(project.MaxProject), "query.agent": maxChars(project.MaxName),
		"query.timeout": maxChars(maxDuration), "query.owner": maxChars(auth.MaxTokenName),
	}
}
