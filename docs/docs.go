// Package docs has the pages of the manual, which are the Markdown files of this folder, and their pictures. The file
// contents.md lists the pages in reading order. [mailroom/app/manual] renders them.
package docs

import "embed"

// Files has all files of this folder, by their paths in it.
//
//go:embed *
var Files embed.FS
