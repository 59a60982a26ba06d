// Package conformance has the suite that every worker passes, in whatever language it is written. The scenarios are
// data in the folder scenarios. The driver plays each against a real server, with an agent that performs the script of
// the scenario through the public API of its library, and with a proxy between the two that injects faults. It judges
// from outside: by the log, by the effects that the agent notes in a file, and by the doctor.
//
// docs/workers.md is generated from the same data: go test ./torture/conformance -run Manual -update
package conformance
