// Package pagetest tests the live page of
// [github.com/warmroute/warmroute.Router.Handler] in a real Chromium, headless:
//
//	go test ./... -args -chromium /usr/bin/chromium -screenshots /tmp/shots
//
// It is a module of its own, so that neither the library nor its tests need a
// browser. Without one its tests fail. Debian's packages chromium and
// chromium-headless-shell will do.
package pagetest
