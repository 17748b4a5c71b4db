// Package packaging tests the module as those who use it get it: what it pulls
// into a program, which of its packages need which, and that go get works. It
// has no code of its own, and is apart since its tests build a program.
package packaging
