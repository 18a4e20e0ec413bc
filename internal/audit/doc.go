// Package audit counts what happened from the streams alone, and says where the
// promises of the system were broken. It is a second opinion: it imports nothing
// else of this module, so that it cannot be wrong in the same way as what it
// judges. What it knows it has from docs/protocol.md: the subjects, the headers
// of a fact, the bytes of a digest, and a few members of the data.
package audit
