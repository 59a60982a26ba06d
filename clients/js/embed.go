// Package js embeds the JavaScript client, so that the pages of the server import the modules that npm publishes.
package js

import "embed"

// Modules are the client's modules; mailroom.js is where it begins.
//
//go:embed *.js
var Modules embed.FS
