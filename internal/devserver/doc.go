// Package devserver starts the servers that runledger stands on, for as long
// as one program runs: a nats-server with JetStream inside the process, and a
// redis-server beside it, or miniredis where the machine has no redis-server.
//
// `processor demo` and `processor dev` use it directly, tests use it through
// internal/testenv. It is no way to run anything that has to last: nothing
// here restarts a server that ended by itself, and there is no authentication.
//
// A started process never outlives the program that started it, however that
// program ends, on Linux (the kernel kills it with its parent). On other
// systems it stays behind if the program is killed before it could call Stop.
package devserver
