//go:build !race

package warmroute_test

const raceEnabled = false
