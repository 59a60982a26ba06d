// Package request has what the handlers of all requests use: the caller and what it may see, the check of a body's
// JSON, refusals that name a field, the filter of a list, the limits of bytes and rates, and the wire objects of rows.
//
// It is a package of its own because server and the packages below it must refuse, bound and show the same things in
// the same way, and server imports them: what all of them need is below all of them. It knows no route and writes no
// response, and no code outside of server uses it.
package request
