package main

// auditMutants lose or add a record of what an operator did, or show it to a stranger.
func auditMutants() []mutant {
	const once, none = "^TestEachActionOfAnOperatorIsRecordedOnce$", "^TestNoCallerChangesTheAuditLog$"
	return []mutant{
		{"an action has no record", "ledger/op_audit.go",
			"	t.AppendEntry(\"\", reserved.Owner(t.ID), entry.KindAudit, a, tx.now())\n", "	_ = t\n", "ledger", once},
		{"a cancellation that changes nothing is recorded", "ledger/op_edit.go",
			"len(t.Entries()) > begin {", "len(t.Entries()) >= begin {", "ledger", once},
		{"the audit log belongs to the operator, who can delete it", "internal/reserved/reserved.go",
			"	if Prefix(id) == Audit {\n", "	if false {\n", "ledger", none},
		{"the server submits to the audit log", "thread/token.go",
			"if reserved.Prefix(t.ID) == reserved.Audit {", "if false {", "ledger", none},
		{"a token that reads threads reads the audit log", "server/routes.go",
			"route(rt, auth.PermissionAdmin, \"GET /v1/audit\"", "route(rt, auth.PermissionRead, \"GET /v1/audit\"",
			"server", "^TestOnlyAnAdminReadsTheAuditLog$"},
		{"the retention of threads purges the audit log", "app/node/janitor.go",
			" && t.ID != reserved.AuditLog", "", "app/node", "^TestTheAuditLogIsKeptByItsOwnRetention$"},
		{"each guess of a secret is a record", "server/refusals.go",
			" || now.Sub(f.recorded) < refusalInterval", "", "server", "^TestRefusedSecretsAreOneRecordInTenMinutes$"},
		{"a wrong pairing code is recorded as an approval", "channel/chat/pairing_operator.go",
			"if done = (ledger.Action{}); refusal == nil {", "if done = (ledger.Action{}); true {", "channel/chat/adapter",
			"^TestPairingsAreInTheAuditLog$"},
	}
}
