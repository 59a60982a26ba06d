package server_test

// claimUnder is a registration of a worker that says how its runs are retried.
func claimUnder(policy string) string {
	return `{"agents":["elsewhere"],"max":0,"retry":` + policy + `}`
}

func badPolicies() []badInput {
	return []badInput{
		{"POST /v1/claims", claimUnder(`{"attempts":0}`), 422, "body.retry.attempts", ""},
		{"POST /v1/claims", claimUnder(`{"attempts":101}`), 422, "body.retry.attempts", ""},
		{"POST /v1/claims", claimUnder(`{"first":"soon"}`), 422, "body.retry.first", ""},
		{"POST /v1/claims", claimUnder(`{"first":"0s"}`), 422, "body.retry.first", ""},
		{"POST /v1/claims", claimUnder(`{"first":"-1s"}`), 422, "body.retry.first", ""},
		{"POST /v1/claims", claimUnder(`{"most":"8761h"}`), 422, "body.retry.most", ""},
		{"POST /v1/claims", claimUnder(`{"first":"2s","most":"1s"}`), 422, "body.retry.most", ""},
		{"POST /v1/claims", claimUnder(`{"factor":0.5}`), 422, "body.retry.factor", ""},
		{"POST /v1/claims", claimUnder(`{"factor":11}`), 422, "body.retry.factor", ""},
		{"POST /v1/claims", claimUnder(`{"outage_most":"0s"}`), 422, "body.retry.outage_most", ""},
		{"POST /v1/claims", claimUnder(`{"outage":"10ms"}`), 422, "body.retry.outage", ""},
		{"POST /v1/messages", `{"text":"x","retry":{"first":"soon"}}`, 422, "body.retry.first", ""},
		{"POST /v1/messages", `{"text":"x","retry":{"first":"2s","most":"1s"}}`, 422, "body.retry.most", ""},
		{"POST /v1/messages", `{"text":"x","max_attempts":2,"retry":{"attempts":3}}`, 422, "body.retry", ""},
		{"POST /v1/claims", claimUnder(`{"pause":"1s"}`), 422, "body.retry.pause", ""},
	}
}
