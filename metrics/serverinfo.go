package metrics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

// ErrNotServed is wrapped by [Scraper.MaxNumSeqs] if the endpoint does not tell
// the figure.
var ErrNotServed = errors.New("not served by this endpoint")

// MaxNumSeqs asks the vLLM server at base for max_num_seqs, the most requests
// one engine (data-parallel rank) runs at the same time. vLLM tells it only at
// GET /server_info?config_format=json and only with VLLM_SERVER_DEV_MODE=1; no
// metric has it.
//
// The error wraps [ErrNotServed] if the endpoint answers 404 or its answer does
// not hold the figure, else as for [Scraper.Scrape]. The request is bounded by
// [Config.Timeout] and [Config.MaxBytes], and not shared.
func (s *Scraper) MaxNumSeqs(ctx context.Context, base *url.URL) (int, error) {
	target, err := endpoint(base, "/server_info")
	if err != nil {
		return 0, err
	}
	query := target.Query()
	query.Set("config_format", "json")
	target.RawQuery = query.Encode()

	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	body := s.buffer()
	defer s.buffers.Put(body)
	if err := s.get(ctx, target, "application/json", body); err != nil {
		var status *StatusError
		if errors.As(err, &status) && status.Code == http.StatusNotFound {
			return 0, fmt.Errorf("%w: %w", err, ErrNotServed)
		}
		return 0, err
	}
	var info struct {
		Config struct {
			Scheduler struct {
				MaxNumSeqs int `json:"max_num_seqs"`
			} `json:"scheduler_config"`
		} `json:"vllm_config"`
	}
	err = json.Unmarshal(body.Bytes(), &info)
	var mismatch *json.UnmarshalTypeError
	switch n := info.Config.Scheduler.MaxNumSeqs; {
	case errors.As(err, &mismatch): // such as the text form of older versions: vllm_config is a string
		return 0, fmt.Errorf("metrics: get %s: %w: %w", target.Redacted(), ErrNotServed, err)
	case err != nil:
		return 0, fmt.Errorf("metrics: get %s: %w", target.Redacted(), err)
	case n <= 0:
		return 0, fmt.Errorf("metrics: get %s: %w: no max_num_seqs above 0", target.Redacted(), ErrNotServed)
	default:
		return n, nil
	}
}
