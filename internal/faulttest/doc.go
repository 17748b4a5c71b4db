// Package faulttest holds the tests that put the router beside engines and
// clients that misbehave: one fault at a time, each with what it may cost, and
// all of them at once, at random, for an hour of virtual time and over real
// sockets. It has no code of its own.
//
// The tests that run long take flags:
//
//	go test -race -run TestChaosOverSockets ./internal/faulttest -args -chaos 60s
//	go test -race -run TestChaosInVirtualTime ./internal/faulttest -args -seed 7
package faulttest
