// Package js carries the JavaScript client, so that pages of the server import
// the same modules as everybody else.
package js

import "embed"

// Modules are the client's modules; mailroom.js is where it begins.
//
//go:embed *.js
var Modules embed.FS
