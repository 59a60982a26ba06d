// Package archtest tests the rules of the code base: which package may import which,
// size budgets, and forbidden constructs.
//
// Budgets are soft. Code that exceeds one gives the reason in a comment:
//
//	// archtest: one table of all codes reads better than three.
//
// The comment stands above or beside the function, the interface or the
// variable; for a file, above its package clause. An interface may have a few methods
// more with such a comment. The types above the budget and the vague phrases of each
// folder are listed with their current numbers, which may only shrink.
package archtest
