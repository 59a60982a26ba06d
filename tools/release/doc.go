// Command release builds what a release of Mailroom consists of, into bin/release: archives for Linux and macOS,
// packages for Debian and for systems with rpm, an OCI image, a software bill of materials for each platform, the
// texts of all licences, and checksums, signed if there is a key. It needs no daemon and no account, and the network
// for modules only.
//
// The files depend on the commit, the version, the settings and the version of Go only: two folders give the same
// bytes. So names are sorted, owners are root, and each time is the one of the commit.
//
// It is a module of its own, so that nothing of what it imports reaches the product.
package main
