package warmroute_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/warmroute/warmroute"
)

// The pages take no credentials: a program's own middleware goes around them.
func ExampleRouter_Handler() {
	router, err := warmroute.New([]warmroute.Endpoint{{URL: "http://10.0.0.1:8000", Model: "llama"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer router.Close()
	pages := http.StripPrefix("/debug/warmroute", router.Handler())
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/warmroute/", func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); password != "secret" {
			w.Header().Set("WWW-Authenticate", "Basic")
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		pages.ServeHTTP(w, r)
	})

	show := func(path string, authorized bool) {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("Accept", "text/html")
		if authorized {
			r.SetBasicAuth("operator", "secret")
		}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("Content-Type"))
	}
	show("/debug/warmroute/", false)
	show("/debug/warmroute/", true)
	show("/debug/warmroute/stats", true)
	// Output:
	// 401 text/plain; charset=utf-8
	// 200 text/html; charset=utf-8
	// 200 application/json
}

func ExampleRouter_History() {
	router, err := warmroute.New([]warmroute.Endpoint{{URL: "http://10.0.0.1:8000", Model: "llama"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer router.Close()
	// router.Run records a point each five seconds; this one is not run.
	for _, pool := range router.History().Pools {
		var cached, prompt uint64
		for _, p := range pool.Points {
			cached += p.PromptCached
			prompt += p.PromptCached + p.PromptComputed
		}
		fmt.Printf("%s: %d points, %d of %d prompt tokens cached\n", pool.Model, len(pool.Points), cached, prompt)
	}
	// Output:
	// llama: 0 points, 0 of 0 prompt tokens cached
}
