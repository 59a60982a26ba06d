package program

import "mailroom"

// The tables of this file are the words by which programs say what is wrong. Text is compared in lower case, and only
// with what the program itself reports: its final line, its stderr, and messages that it wrote in place of the model.
// fault_test.go has an example of each. A failure whose text is in no table gets the class of its HTTP status.

// Fault is a problem of the agent itself, so that all of its runs fail in the same way.
type Fault string

const (
	FaultLogin   Fault = "login"   // the program is not logged in, or its key is refused
	FaultQuota   Fault = "quota"   // the account has no credit left
	FaultProgram Fault = "program" // the program, or what it needs, is missing or rejects its settings
)

// loginWords returns texts by which a program says that it has no valid login.
//
//	claude: Invalid API key · Please run /login (claude-code#5666), OAuth token has expired, Failed to authenticate:
//	OAuth session expired and could not be refreshed (#79685), 401 Invalid authentication credentials (#50743), Not
//	logged in; codex: access token could not be refreshed … log out and sign in again (openai/codex#6498, #24365),
//	Failed to refresh token (#6028), Missing environment variable: `OPENAI_API_KEY`; APIs: Incorrect API key provided.
func loginWords() []string {
	return []string{
		"/login", "not logged in", "invalid api key", "incorrect api key", "api key not found", "failed to authenticate",
		"authentication_error",
		"invalid authentication credentials", "oauth token has expired", "oauth token revoked", "oauth session expired",
		"oauth authentication is currently not",
		"could not be refreshed", "failed to refresh token", "refresh_token_reused", "sign in again", "signing in again",
		"codex login",
		"missing environment variable", "missing bearer", "organization has been disabled", "account has been disabled",
	}
}

// quotaWords returns texts that say that the account has used up what it paid for, without naming a time at which it
// may go on.
//
//	claude: Credit balance is too low (claude-code#36648); API: Your credit balance is too low to access the Anthropic
//	API, which has status 400; codex: Quota exceeded. Check your plan and billing details; APIs: insufficient_quota,
//	You exceeded your current quota; usage_not_included of a plan without codex.
func quotaWords() []string {
	return []string{
		"credit balance is too low", "quota exceeded", "insufficient_quota", "exceeded your current quota",
		"insufficient credits", "out of credits",
		"usage_not_included", "check your plan and billing", "billing_error", "payment required", "billing_hard_limit",
		"spend limit",
	}
}

// programWords returns texts that say that a part of the program is missing: an interpreter that env(1) should start,
// or a part of an unfinished update.
func programWords() []string {
	return []string{
		"env: node:", "env: ‘node’", "env: 'node'", "env: ‘bun’", "env: 'bun'", "env: bun:", "cannot find module",
		"node: not found",
		"error while loading shared libraries", "bad interpreter", "exec format error", "requires node", "unsupported node",
	}
}

// limitWords returns texts that say that a limit of use was reached, which ends by itself; see limit.go. If the HTTP
// status is unknown, such a text makes the failure an outage.
func limitWords() []string {
	return []string{
		"usage limit", "limit reached", "hit your limit", "hit your session limit", "hit your weekly limit", "rate limit",
		"rate_limit",
		"usage_limit_reached", "too many requests", "hit your opus limit", "hit your sonnet limit", "reached your limit",
	}
}

// outageWords returns texts that say that the model, or the network to it, is down.
func outageWords() []string {
	return []string{"high demand", "overloaded", "connection failed", "error sending request", "lookup address"}
}

// stuckWords returns texts that say that the model refuses the conversation itself, so that it will refuse each
// further message in this session.
//
//	full: ran out of room in the model's context window (openai/codex#31535, #19842), prompt is too long
//	(claude-code#39316), input length and `max_tokens` exceed context limit, context_length_exceeded, Request too
//	large, Conversation too long; broken: `tool_use` ids were found without `tool_result` blocks (#2105), unexpected
//	`tool_use_id`, thinking blocks cannot be modified (#12743, #63147), Invalid `signature` in thinking block (#21726),
//	No tool output found for function call, invalid_encrypted_content (openai/codex#8119, #8131), Missing required
//	parameter: input[3].encrypted_content (#19661), could not be decrypted (#36662), roles must alternate; images:
//	Could not process image (claude-code#55200), image exceeds 5 MB maximum (#2104), dimensions exceed max allowed
//	size (#27090), exceeds the dimension limit (#53547).
func stuckWords() []string {
	return []string{
		"ran out of room in the model's context", "start a new thread", "start a new session", "prompt is too long",
		"context_length_exceeded", "context length exceeded",
		"exceed context limit", "exceeds the context window", "maximum context length", "request too large",
		"request_too_large", "conversation too long", "conversation is too long",
		"without `tool_result`", "`tool_result` block", "unexpected `tool_use_id`", "`tool_use` ids",
		"blocks in the latest assistant message cannot be modified", "cannot be modified",
		"signature in thinking", "`signature` in", "expected `thinking`", "no tool output found", "no tool call found",
		"invalid_encrypted_content", "encrypted_content",
		"encrypted content", "could not be decrypted", "roles must alternate", "must be non-empty",
		"could not process image", "image exceeds", "image dimensions exceed", "exceeds the dimension limit",
		"image was too large", "unable to process image",
		"was provided without its required", "duplicate item found",
	}
}

// busyMachineWords returns texts that say that the program could not start for a reason that will pass and that does
// not concern the session.
//
//	Error: failed to initialize sqlite state db: database is locked (puffo-agent#290), EBUSY: resource busy or locked,
//	text file busy while the program is updated, no space left on device.
func busyMachineWords() []string {
	return []string{
		"database is locked", "ebusy", "resource busy", "text file busy", "etxtbsy", "no space left", "enospc",
		"disk quota exceeded", "too many open files", "emfile",
		"cannot allocate memory", "out of memory", "resource temporarily unavailable", "eagain", "i/o error",
	}
}

// faultOf returns the fault that a message and an HTTP status show, or "" if they show none. status is 0 if it is
// unknown.
func faultOf(message string, status int) Fault {
	switch {
	case containsAny(message, quotaWords()), status == 402:
		return FaultQuota
	case containsAny(message, loginWords()), status == 401, status == 403:
		return FaultLogin
	}
	return ""
}

// failureClass returns the class of a failure of the model, from its message and HTTP status. status is 0 if it is
// unknown.
func failureClass(message string, status int) mailroom.Class {
	switch {
	case status == 0 && containsAny(message, limitWords()), containsAny(message, outageWords()):
		return mailroom.ClassUnavailable
	case status != 0:
		return classOf(status)
	}
	return mailroom.ClassTransient
}
