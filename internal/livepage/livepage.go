// Package livepage is the page that shows a router at work, and the files it is
// made of. It expects stats, history and events beside itself; see
// [github.com/warmroute/warmroute.Router.Handler].
package livepage

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"io/fs"
	"net/http"
	"path"
	"time"
)

//go:embed assets
var files embed.FS

// Policy is the page's Content-Security-Policy. The page loads its own files,
// asks its own server and puts all that it is told into the document as text,
// which require-trusted-types-for makes the browser hold it to.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// contentType is by the name's extension, not by the system's table of types,
// which some systems lack.
func contentType(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	return "text/plain; charset=utf-8"
}

// Register adds the page's files below assets/, for GET and HEAD.
func Register(mux *http.ServeMux) {
	mux.HandleFunc("GET /assets/{name...}", func(w http.ResponseWriter, r *http.Request) {
		serve(w, r, r.PathValue("name"))
	})
}

// Serve serves the page itself. Its address must end with a slash.
func Serve(w http.ResponseWriter, r *http.Request) { serve(w, r, "index.html") }

func serve(w http.ResponseWriter, r *http.Request, name string) {
	content, err := fs.ReadFile(files, path.Join("assets", name))
	if err != nil { // there is none of that name, or it is a directory
		http.NotFound(w, r)
		return
	}
	sum := sha256.Sum256(content)
	h := w.Header()
	h.Set("Content-Type", contentType(name))
	h.Set("Content-Security-Policy", Policy)
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-cache") // asked for each time, sent when it has changed
	h.Set("ETag", `"`+base64.RawURLEncoding.EncodeToString(sum[:12])+`"`)
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
}
