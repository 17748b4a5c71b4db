package pagetest

import "net/http"

// holding breaks every connection until back is closed.
type holding struct {
	http.Handler
	back <-chan struct{}
}

func (h holding) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case <-h.back:
		h.Handler.ServeHTTP(w, r)
	default:
		panic(http.ErrAbortHandler)
	}
}
