package bench

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
)

// inBubble calls f in a bubble of virtual time of its own, from any goroutine of
// any program that is in none: a test, a benchmark or a command.
//
// synctest.Test wants a *testing.T, of which only a test has one. It takes no
// more from it than a parent to pass failures on to, for which a new T will do:
// f has no T and cannot fail. Where that changes the package's tests will tell.
func inBubble(f func()) (err error) {
	returned := false
	defer func() {
		// A bubble in which nothing can go on any more panics here.
		if r := recover(); r != nil {
			err = fmt.Errorf("bench: %v", r)
		}
	}()
	synctest.Test(new(testing.T), func(*testing.T) {
		f()
		returned = true
	})
	if !returned {
		return errors.New("bench: the simulation did not return")
	}
	return nil
}
