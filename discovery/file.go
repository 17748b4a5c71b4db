package discovery

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/warmroute/warmroute/replica"
)

const (
	// DefaultFileInterval is the default of [FileConfig].Interval.
	DefaultFileInterval = time.Second
	// MaxFileSize is the most that [File] reads, in bytes.
	MaxFileSize = 4 << 20
	// settle is for how long a file that has just changed is read again although its
	// time and size have not: the clock that stamps files may be that coarse.
	settle = 2 * time.Second
)

// Parse reads the text of a watched file.
type Parse func(text []byte) ([]replica.Target, error)

// FileConfig is what [File] watches.
type FileConfig struct {
	// Path is the file. Symbolic links are followed each time, so that a ConfigMap's
	// file is seen to change.
	Path string
	// Interval is the pause between two looks at it, at least 100 ms. Default 1 s.
	Interval time.Duration
	// Parse reads its text. Default [ParseJSON].
	Parse Parse
	// APIKey is used for every endpoint that Parse gives none: a file read by
	// ParseJSON has no keys.
	APIKey string
}

// File returns a Discoverer of the endpoints that a file lists, which somebody else
// writes. It is read when its time, size or identity changes, and reported when its
// text does. Write another file and rename it to Path: one that is read half written
// is refused as a rule, but not surely. One that is not there, empty or refused
// leaves the last list in force. It returns a [*replica.ConfigError] for a
// configuration that is refused.
func File(cfg FileConfig) (Discoverer, error) {
	if cfg.Path == "" {
		return nil, &replica.ConfigError{Field: "path", Value: "", Allowed: "the path of a file"}
	}
	cfg.Interval = cmp.Or(cfg.Interval, DefaultFileInterval)
	if err := checkInterval(cfg.Interval); err != nil {
		return nil, err
	}
	if cfg.Parse == nil {
		cfg.Parse = ParseJSON
	}
	return file(cfg), nil
}

type file FileConfig

func (f file) Watch(ctx context.Context, report Report) error {
	var look look
	return poll(ctx, f.Interval, report, func(context.Context) ([]replica.Target, error) {
		text, err := look.read(f.Path)
		if err != nil {
			return nil, fmt.Errorf("discovery: %w", err)
		}
		if text == nil {
			return look.targets, look.err
		}
		look.targets, look.err = f.parse(text)
		return look.targets, look.err
	})
}

func (f file) parse(text []byte) ([]replica.Target, error) {
	wrap := func(err error) error { return fmt.Errorf("discovery: %s: %w", f.Path, err) }
	targets, err := f.Parse(text)
	if err != nil {
		return nil, wrap(err)
	}
	seen := map[string]bool{}
	for i := range targets {
		if targets[i].APIKey == "" {
			targets[i].APIKey = f.APIKey
		}
		name, err := targets[i].Name()
		if err != nil {
			return nil, wrap(fmt.Errorf("endpoint %d: %w", i, err))
		}
		if seen[name] {
			return nil, wrap(fmt.Errorf("endpoint %d: %q: %w", i, targets[i].URL, replica.ErrDuplicate))
		}
		seen[name] = true
	}
	return targets, nil
}

// look is what was seen of a file last.
type look struct {
	info    fs.FileInfo
	changed time.Time
	hash    [sha256.Size]byte
	known   bool
	targets []replica.Target
	err     error
}

var errEmpty = errors.New("file is empty")

// read returns the text if it is another than that of the last time, nil if it is
// not.
func (l *look) read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		l.info = nil
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	if l.info != nil && os.SameFile(info, l.info) && info.ModTime().Equal(l.info.ModTime()) && info.Size() == l.info.Size() {
		if now.Sub(l.changed) > settle {
			return nil, nil
		}
	} else {
		l.changed = now
	}
	text, err := io.ReadAll(io.LimitReader(f, MaxFileSize+1))
	switch {
	case err != nil:
		l.info = nil
		return nil, err
	case len(text) > MaxFileSize:
		l.info = nil
		return nil, fmt.Errorf("%s is longer than %d bytes", path, MaxFileSize)
	case len(bytes.TrimSpace(text)) == 0:
		l.info = nil
		return nil, fmt.Errorf("%s: %w", path, errEmpty)
	}
	l.info = info
	hash := sha256.Sum256(text)
	if l.known && hash == l.hash {
		return nil, nil
	}
	l.hash, l.known = hash, true
	return text, nil
}

// ParseJSON reads a list of endpoints as they are in [replica.Target]'s JSON:
//
//	{"endpoints": [{"url": "http://10.0.0.1:8000", "model": "m", "ranks": 4, "draining": false}]}
//
// Other fields, more text behind it, and a text without the list are refused; an
// empty list is none at all. API keys have no place there.
func ParseJSON(text []byte) ([]replica.Target, error) {
	var list struct {
		Endpoints *[]replica.Target `json:"endpoints"`
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&list); err != nil {
		return nil, inLine(text, d, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, inLine(text, d, errors.New("more text behind the list"))
	}
	if list.Endpoints == nil {
		return nil, errors.New(`no "endpoints"`)
	}
	return *list.Endpoints, nil
}

// inLine says in which line an error is.
func inLine(text []byte, d *json.Decoder, err error) error {
	offset := d.InputOffset()
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		offset = int64(len(text))
	case errors.As(err, &syntax):
		offset = syntax.Offset
	case errors.As(err, &kind):
		offset = kind.Offset
	}
	line := 1 + bytes.Count(text[:min(max(offset, 0), int64(len(text)))], []byte("\n"))
	return fmt.Errorf("line %d: %w", line, err)
}
