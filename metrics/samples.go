package metrics

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"net/url"
)

// Sample is a line of a page that is no engine's, as [ReadSamples] hands it on.
// It is good until the function it was handed to returns.
type Sample struct {
	Name  string
	Value float64 // as it stands there: it may be negative, infinite or NaN

	read *sample
}

// Label returns the value of a label, "" if the sample does not have it.
func (s Sample) Label(name string) string { return string(s.read.label(name)) }

// maxNames is how many series a reader can tell apart.
const maxNames = math.MaxUint8

// ReadSamples calls visit for the samples of the named series on a page in the
// Prometheus text format, in their order, from the goroutine it is called on. The
// rest of the page is skipped, so that it costs little. The error, which names
// the first of them, is about lines of the named series that could not be read;
// the others were visited all the same. More than 255 names are refused.
func ReadSamples(page []byte, names []string, visit func(Sample)) error {
	if len(names) > maxNames {
		return fmt.Errorf("metrics: %d series are more than %d", len(names), maxNames)
	}
	ids := make(map[string]series, len(names))
	for i, name := range names {
		ids[name] = series(i + 1)
	}
	var lines lineParser
	for id, s := range lines.samples(page, func(name []byte) series { return ids[string(name)] }) {
		visit(Sample{Name: names[id-1], Value: s.value, read: s})
	}
	return lines.err()
}

// Get reads what is served at target, once: a page that is no engine's. It is
// bounded by [Config.Timeout] and [Config.MaxBytes], follows no redirect and is
// not shared. What came before an error is returned with it, up to the end of the
// last whole line. The error wraps [*StatusError] for an answer other than 200,
// [ErrTooLong], [context.DeadlineExceeded], or what the client said.
func (s *Scraper) Get(ctx context.Context, target *url.URL) ([]byte, error) {
	if err := checkBase(target); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	body := s.buffer()
	defer s.buffers.Put(body)
	err := s.get(ctx, target, target, "text/plain;version=0.0.4, */*;q=0.1", body)
	text := body.Bytes()
	if err != nil {
		text = text[:bytes.LastIndexByte(text, '\n')+1]
	}
	return bytes.Clone(text), err
}
