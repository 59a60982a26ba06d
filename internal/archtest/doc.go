// Package archtest holds the house rules of the code as tests: what may import
// what, how large things may grow, and a few things that are never done.
//
// A budget is soft. What has to be larger says why in a comment at it:
//
//	// archtest: one table of all codes reads better than three.
//
// The comment stands above or beside the function, the interface or the
// variable; for a file, above its package clause. An interface may have a few methods
// more with such a comment. Types that are larger than the budget, and the vague phrases
// of each folder, are in lists with today's number, which only shrinks.
package archtest
