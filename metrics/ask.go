package metrics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

// ErrNotServed is wrapped by the errors of [Scraper.MaxNumSeqs],
// [Scraper.Version] and [Scraper.Models] if the endpoint does not tell.
var ErrNotServed = errors.New("not served by this endpoint")

// question is where an engine answers in JSON what its page does not say.
type question[T any] struct {
	path  string
	query url.Values
	// answer reads the answer. An error that wraps ErrNotServed, or one of JSON
	// of another shape, means that it does not tell.
	answer func(body []byte) (T, error)
}

// Dialects may have these. They are kept off the interface, as they are of no
// use to one who reads a page.
type (
	maxNumSeqsTeller interface{ maxNumSeqs() question[int] }
	versionTeller    interface{ version() question[string] }
	modelsTeller     interface{ models() question[[]Model] }
)

// MaxNumSeqs asks the server at base for the most requests one engine
// (data-parallel rank) runs at the same time: vLLM's max_num_seqs at
// GET /server_info?config_format=json, which it serves only with
// VLLM_SERVER_DEV_MODE=1, SGLang's effective_max_running_requests_per_dp or
// max_running_requests at GET /server_info, or llama.cpp's total_slots at
// GET /props. Other engines say it on their page: [Snapshot.MaxNumSeqs]. As long
// as no page has told the engine, all three are asked until one tells.
//
// The error wraps [ErrNotServed] if the endpoint answers 404, its answer does
// not hold the figure, or its engine is one that is not asked, else as for
// [Scraper.Scrape]. The requests are bounded by thirty times [Config.Timeout]
// together, since vLLM collects facts about its machine for the answer, which
// takes seconds, and by [Config.MaxBytes] each. They are not shared.
func (s *Scraper) MaxNumSeqs(ctx context.Context, base *url.URL) (int, error) {
	return askAny(ctx, s, base, func(d Dialect) (q question[int], ok bool) {
		if t, teller := d.(maxNumSeqsTeller); teller {
			return t.maxNumSeqs(), true
		}
		return q, false
	})
}

// Version asks the server at base for its version, such as "0.33.0": vLLM at
// GET /version, SGLang at GET /server_info. It is as for [Scraper.MaxNumSeqs]
// otherwise.
func (s *Scraper) Version(ctx context.Context, base *url.URL) (string, error) {
	return askAny(ctx, s, base, func(d Dialect) (q question[string], ok bool) {
		if t, teller := d.(versionTeller); teller {
			return t.version(), true
		}
		return q, false
	})
}

// Model is an entry of a server's list of models.
type Model struct {
	// ID is the name by which requests ask for it.
	ID string
	// Parent is the ID of the base model if this is a LoRA adapter, else "".
	Parent string
}

// Models asks the server at base which models it serves, LoRA adapters among
// them: vLLM (0.8.5 to 0.33) and SGLang at GET /v1/models, where an adapter is an
// entry with a parent. vLLM wants its --api-key there. An adapter that is loaded
// later, or by a resolver when it is first asked for, is on the list from then
// on. It is as for [Scraper.MaxNumSeqs] otherwise.
func (s *Scraper) Models(ctx context.Context, base *url.URL) ([]Model, error) {
	return askAny(ctx, s, base, func(d Dialect) (q question[[]Model], ok bool) {
		if t, teller := d.(modelsTeller); teller {
			return t.models(), true
		}
		return q, false
	})
}

// askTimeouts is how many times the time of a scrape an answer may take: vLLM
// 0.26 takes two seconds for /server_info on an idle machine.
const askTimeouts = 30

// askAny asks as each of an endpoint's possible dialects does, until one gets
// an answer.
func askAny[T any](ctx context.Context, s *Scraper, base *url.URL, of func(Dialect) (question[T], bool)) (T, error) {
	var zero T
	if err := checkBase(base); err != nil {
		return zero, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeouts*s.timeout)
	defer cancel()
	var failed error
	for _, d := range s.known(endpointKey(base)) {
		q, ok := of(d)
		if !ok {
			continue
		}
		told, err := ask(ctx, s, base, q)
		if err == nil || !errors.Is(err, ErrNotServed) {
			return told, err
		}
		if failed == nil {
			failed = err
		}
	}
	if failed == nil {
		failed = fmt.Errorf("metrics: ask %s: %w", base.Redacted(), ErrNotServed)
	}
	return zero, failed
}

func ask[T any](ctx context.Context, s *Scraper, base *url.URL, q question[T]) (T, error) {
	var zero T
	target := base.JoinPath(q.path)
	query := target.Query()
	for name, values := range q.query {
		query[name] = values
	}
	target.RawQuery = query.Encode()
	body := s.buffer()
	defer s.buffers.Put(body)
	if err := s.get(ctx, base, target, "application/json", body); err != nil {
		var status *StatusError
		if errors.As(err, &status) && status.Code == http.StatusNotFound {
			err = fmt.Errorf("%w: %w", err, ErrNotServed)
		}
		return zero, err
	}
	told, err := q.answer(body.Bytes())
	var mismatch *json.UnmarshalTypeError
	switch {
	case errors.As(err, &mismatch): // such as the text form of older vLLMs: vllm_config is a string
		return zero, fmt.Errorf("metrics: get %s: %w: %w", target.Redacted(), ErrNotServed, err)
	case err != nil:
		return zero, fmt.Errorf("metrics: get %s: %w", target.Redacted(), err)
	}
	return told, nil
}

// positive takes a limit that makes no sense for one that is not told.
func positive(n int, name string) (int, error) {
	if n <= 0 {
		return 0, fmt.Errorf("%w: no %s above 0", ErrNotServed, name)
	}
	return n, nil
}

func (vllm) maxNumSeqs() question[int] {
	return question[int]{
		path:  "/server_info",
		query: url.Values{"config_format": {"json"}},
		answer: func(body []byte) (int, error) {
			var info struct {
				Config struct {
					Scheduler struct {
						MaxNumSeqs int `json:"max_num_seqs"`
					} `json:"scheduler_config"`
				} `json:"vllm_config"`
			}
			if err := json.Unmarshal(body, &info); err != nil {
				return 0, err
			}
			return positive(info.Config.Scheduler.MaxNumSeqs, "max_num_seqs")
		},
	}
}

func (vllm) version() question[string] { return versionAt("/version") }
func (vllm) models() question[[]Model] { return modelList() }

func (sglang) maxNumSeqs() question[int] {
	return question[int]{
		path: "/server_info",
		answer: func(body []byte) (int, error) {
			var info struct {
				MaxRunning int `json:"max_running_requests"` // as configured, null by default
				States     []struct {
					PerRank int `json:"effective_max_running_requests_per_dp"`
				} `json:"internal_states"`
			}
			if err := json.Unmarshal(body, &info); err != nil {
				return 0, err
			}
			for _, state := range info.States {
				if state.PerRank > 0 {
					return state.PerRank, nil
				}
			}
			return positive(info.MaxRunning, "max_running_requests")
		},
	}
}

func (sglang) version() question[string] { return versionAt("/server_info") }
func (sglang) models() question[[]Model] { return modelList() }

func (llamaCPP) maxNumSeqs() question[int] {
	return question[int]{
		path: "/props",
		answer: func(body []byte) (int, error) {
			var props struct {
				TotalSlots int `json:"total_slots"`
			}
			if err := json.Unmarshal(body, &props); err != nil {
				return 0, err
			}
			return positive(props.TotalSlots, "total_slots")
		},
	}
}

// versionAt is an object with the version at its top.
func versionAt(path string) question[string] {
	return question[string]{
		path: path,
		answer: func(body []byte) (string, error) {
			var info struct {
				Version string `json:"version"`
			}
			if err := json.Unmarshal(body, &info); err != nil {
				return "", err
			}
			if info.Version == "" {
				return "", fmt.Errorf("%w: no version", ErrNotServed)
			}
			return info.Version, nil
		},
	}
}

// modelList is OpenAI's list of models, with parents.
func modelList() question[[]Model] {
	return question[[]Model]{
		path: "/v1/models",
		answer: func(body []byte) ([]Model, error) {
			var list struct {
				Data []struct {
					ID     string  `json:"id"`
					Parent *string `json:"parent"`
				} `json:"data"`
			}
			if err := json.Unmarshal(body, &list); err != nil {
				return nil, err
			}
			var all []Model
			for _, m := range list.Data {
				if m.ID == "" {
					continue
				}
				entry := Model{ID: m.ID}
				if m.Parent != nil {
					entry.Parent = *m.Parent
				}
				all = append(all, entry)
			}
			if all == nil {
				return nil, fmt.Errorf("%w: no models", ErrNotServed)
			}
			return all, nil
		},
	}
}
