package fakevllm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The paths that something else depends on.
const (
	messagesPath  = "/v1/messages"
	responsesPath = "/v1/responses"
)

// maxBody bounds a request's body, in bytes.
const maxBody = 64 << 20

type route struct {
	methods []string
	serve   http.HandlerFunc
}

func (s *Server) newRoutes() map[string]route {
	get, post := []string{http.MethodGet}, []string{http.MethodPost}
	routes := map[string]route{
		"/v1/chat/completions": {post, s.serveFace(decodeChat)},
		"/v1/completions":      {post, s.serveFace(decodeCompletion)},
		messagesPath:           {post, s.serveFace(decodeMessages)},
		responsesPath:          {post, s.serveFace(decodeResponses)},
		"/v1/models":           {get, s.serveModels},
		"/health":              {get, s.serveHealth},
		"/ping":                {[]string{http.MethodGet, http.MethodPost}, s.serveHealth},
		"/version":             {get, s.serveVersion},
		"/metrics":             {get, s.serveMetrics},
		"/metrics/":            {get, s.serveMetrics},
	}
	if s.cfg.DevMode {
		routes["/server_info"] = route{get, s.serveServerInfo}
	}
	return routes
}

// ServeHTTP implements [http.Handler]. The end of the request's context ends
// its run, as a client that disconnects does.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		s.deliveries.add(r.Header.Get(s.cfg.CountHeader), Delivery{Seen: 1})
	}
	w, served := s.serveFaulty(w, r, s.faultOf(r))
	if served {
		return
	}
	found, ok := s.routes[r.URL.Path]
	if !ok {
		bare := strings.TrimSuffix(r.URL.Path, "/")
		if _, ok = s.routes[bare]; ok {
			w.Header().Set("Location", bare)
			w.Header().Set("Content-Length", "0")
			w.WriteHeader(http.StatusTemporaryRedirect)
			return
		}
		writeJSON(w, http.StatusNotFound, detail{"Not Found"})
		return
	}
	if !slices.Contains(found.methods, r.Method) {
		w.Header().Set("Allow", strings.Join(found.methods, ", "))
		writeJSON(w, http.StatusMethodNotAllowed, detail{"Method Not Allowed"})
		return
	}
	found.serve(w, r)
}

// detail is the body of the errors that come from the web framework, not from
// vLLM.
type detail struct {
	Detail string `json:"detail"`
}

func (s *Server) serveHealth(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "0")
	if s.life.Load().engines.Err() != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusOK)
}

func (s *Server) serveVersion(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, struct {
		Version string `json:"version"`
	}{s.cfg.Version})
}

func (s *Server) serveModels(w http.ResponseWriter, _ *http.Request) {
	type permission struct {
		ID                 string  `json:"id"`
		Object             string  `json:"object"`
		Created            int64   `json:"created"`
		AllowCreateEngine  bool    `json:"allow_create_engine"`
		AllowSampling      bool    `json:"allow_sampling"`
		AllowLogprobs      bool    `json:"allow_logprobs"`
		AllowSearchIndices bool    `json:"allow_search_indices"`
		AllowView          bool    `json:"allow_view"`
		AllowFineTuning    bool    `json:"allow_fine_tuning"`
		Organization       string  `json:"organization"`
		Group              *string `json:"group"`
		IsBlocking         bool    `json:"is_blocking"`
	}
	type model struct {
		ID          string       `json:"id"`
		Object      string       `json:"object"`
		Created     int64        `json:"created"`
		OwnedBy     string       `json:"owned_by"`
		Root        string       `json:"root"`
		Parent      *string      `json:"parent"`
		MaxModelLen int          `json:"max_model_len"`
		Permission  []permission `json:"permission"`
	}
	now, served := time.Now().Unix(), s.life.Load().model
	writeJSON(w, http.StatusOK, struct {
		Object string  `json:"object"`
		Data   []model `json:"data"`
	}{"list", []model{{
		ID: served, Object: "model", Created: now, OwnedBy: "vllm",
		Root: served, MaxModelLen: s.cfg.MaxModelLen,
		Permission: []permission{{
			ID: s.newID().with("modelperm-"), Object: "model_permission", Created: now,
			AllowSampling: true, AllowLogprobs: true, AllowView: true, Organization: "*",
		}},
	}}})
}

// serveServerInfo serves the part of the configuration that says something
// about load. The text form is vLLM's default.
func (s *Server) serveServerInfo(w http.ResponseWriter, r *http.Request) {
	var config any
	life := s.life.Load()
	switch format := r.URL.Query().Get("config_format"); format {
	case "json":
		config = map[string]any{
			"model_config": map[string]any{
				"model": life.model, "served_model_name": life.model, "max_model_len": s.cfg.MaxModelLen,
			},
			"cache_config": map[string]any{
				"block_size": s.cfg.BlockSize, "num_gpu_blocks": s.cfg.Blocks * len(life.ranks), "enable_prefix_caching": true,
			},
			"parallel_config": map[string]any{"data_parallel_size": len(life.ranks)},
			"scheduler_config": map[string]any{
				"max_num_seqs": s.cfg.MaxNumSeqs, "max_num_batched_tokens": s.cfg.MaxBatchedTokens, "policy": "fcfs",
			},
		}
	case "", "text":
		config = fmt.Sprintf("model='%s', max_seq_len=%d, data_parallel_size=%d, served_model_name=%s, enable_prefix_caching=True",
			life.model, s.cfg.MaxModelLen, len(life.ranks), life.model)
	default:
		s.refuse(w, r, invalid("config_format", "Input should be 'text' or 'json'"))
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"vllm_config": config})
}

// readBody returns the body of a request that says it is JSON.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, *apiError) {
	media, _, _ := strings.Cut(strings.ToLower(r.Header.Get("Content-Type")), ";")
	if media != "application/json" {
		return nil, invalid("", "Unsupported Media Type: Only 'application/json' is allowed")
	}
	var body bytes.Buffer
	if n := r.ContentLength; 0 < n && n <= maxBody {
		body.Grow(int(n) + bytes.MinRead) // and no copying while it grows
	}
	if _, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody)); err != nil {
		return nil, invalid("body", err.Error())
	}
	if body.Len() == 0 {
		return nil, invalid("body", "Field required")
	}
	return body.Bytes(), nil
}

// writeJSON sends v whole.
func writeJSON(w http.ResponseWriter, status int, v any) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	body := strings.TrimSuffix(b.String(), "\n")
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	// An error here means that the client is gone; nobody is left to tell.
	_, _ = io.WriteString(w, body)
}

// id is the random-looking part of an object's id.
type id uint64

func (i id) with(prefix string) string { return fmt.Sprintf("%s%016x", prefix, uint64(i)) }
