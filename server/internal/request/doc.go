// Package request has what the handlers of all requests use: the check of a body's JSON, refusals that name
// a field, the filter of a list, the limits of bytes and rates, and the wire objects of rows.
//
// It is a package of its own because the packages [mailroom/server], [mailroom/server/ws] and
// [mailroom/server/workers] must refuse, bound and show the same things in the same way, and server imports
// the others. It does not know routes, and no code outside of server uses it.
package request
