// Package e2e holds the tests that run the whole: nats-server, redis-server and
// the processor as processes of their own, killed as processes are.
package e2e
