package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// comparison sends the same load through one gateway after another.
type comparison struct {
	load
	stdout, stderr io.Writer
}

// ours is the name of examples/gateway in the table.
const ours = "warmroute"

// contender is a gateway to be measured. start starts it; nil has none.
type contender struct {
	name  string
	start func(ctx context.Context, listen, engine string) (*process, error)
}

func (c comparison) run(ctx context.Context, gateway, haproxy, only string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "streams")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	contenders := []contender{{name: "direct"}}
	if gateway != "" {
		contenders = append(contenders, contender{ours, func(ctx context.Context, listen, engine string) (*process, error) {
			return start(ctx, io.Discard, listen, gateway, "-listen", listen, "-endpoint", "http://"+engine+",ranks=1")
		}})
	}
	contenders = append(contenders, contender{"reverseproxy", func(ctx context.Context, listen, engine string) (*process, error) {
		return start(ctx, c.stderr, listen, self, "-role", "reverseproxy", "-listen", listen, "-target", "http://"+engine)
	}})
	if path, err := exec.LookPath(haproxy); err == nil {
		contenders = append(contenders, contender{"haproxy", func(ctx context.Context, listen, engine string) (*process, error) {
			cfg := filepath.Join(dir, "haproxy.cfg")
			if err := os.WriteFile(cfg, []byte(haproxyConfig(listen, engine, c.streams)), 0o600); err != nil {
				return nil, err
			}
			return start(ctx, c.stderr, listen, path, "-db", "-f", cfg)
		}})
	} else {
		fmt.Fprintln(c.stderr, "HAProxy is left out:", err)
	}
	fmt.Fprintf(c.stdout, "%d streams of %d chunks, one each %v\n\n", c.streams, c.chunks, c.interval)
	fmt.Fprintln(c.stdout, "| | first chunk p50 | p99 | chunk delay p50 | p99 | memory a stream | processor | failed |")
	fmt.Fprintln(c.stdout, "|---|---|---|---|---|---|---|---|")
	failed := 0
	for _, one := range contenders {
		if only != "" && only != one.name {
			continue
		}
		n, err := c.measure(ctx, self, one)
		if err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
		if one.name == ours {
			failed = n
		}
	}
	if failed > 0 { // those of others are a column of the table
		return fmt.Errorf("%d streams failed", failed)
	}
	return nil
}

// measure sends the load through one of them, writes its row and returns how many
// streams failed.
func (c comparison) measure(ctx context.Context, self string, one contender) (failed int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	engineAddress, err := freeAddress()
	if err != nil {
		return 0, err
	}
	engine, err := start(ctx, c.stderr, engineAddress, self, "-role", "engine", "-listen", engineAddress,
		"-chunks", fmt.Sprint(c.chunks), "-interval", c.interval.String())
	if err != nil {
		return 0, err
	}
	defer engine.stop()
	address := engineAddress
	var gateway *process
	var idle usage
	if one.start != nil {
		if address, err = freeAddress(); err != nil {
			return 0, err
		}
		if gateway, err = one.start(ctx, address, engineAddress); err != nil {
			return 0, err
		}
		defer gateway.stop()
		warm := load{streams: 1, chunks: c.chunks, interval: c.interval}
		if got := warm.play(ctx, "http://"+address, func() {}); got.failures > 0 {
			return 0, got.failure
		}
		if idle, err = gateway.usage(); err != nil {
			return 0, err
		}
	}
	held, err := c.hold(ctx, gateway, "http://"+address)
	if err != nil {
		return 0, err
	}
	memory, processor := "", ""
	if gateway != nil {
		after, err := gateway.usage()
		if err != nil {
			return 0, err
		}
		memory = fmt.Sprintf("%.1f KiB", float64(held.peak-idle.resident)/float64(c.streams)/1024)
		processor = fmt.Sprintf("%.2f s", (after.cpu - idle.cpu).Seconds())
	}
	m := held.measured
	fmt.Fprintf(c.stdout, "| %s | %s | %s | %s | %s | %s | %s | %d |\n", one.name,
		short(quantile(m.first, 0.5)), short(quantile(m.first, 0.99)), short(quantile(m.delays, 0.5)), short(quantile(m.delays, 0.99)),
		memory, processor, m.failures)
	if m.failure != nil {
		fmt.Fprintln(c.stderr, one.name+":", m.failure)
	}
	return m.failures, nil
}

// held is what was seen of a load, and the most memory that the gateway had with
// all streams open.
type held struct {
	measured
	peak int64
}

func (c comparison) hold(ctx context.Context, gateway *process, url string) (h held, err error) {
	full := make(chan struct{})
	ended := make(chan struct{})
	var watch sync.WaitGroup
	if gateway != nil {
		watch.Go(func() {
			select {
			case <-full:
			case <-ended:
				return
			}
			tick := time.NewTicker(100 * time.Millisecond)
			defer tick.Stop()
			for {
				u, e := gateway.usage()
				if e != nil {
					err = e
					return
				}
				h.peak = max(h.peak, u.resident)
				select {
				case <-tick.C:
				case <-ended:
					return
				}
			}
		})
	}
	m := c.play(ctx, url, func() { close(full) })
	close(ended)
	watch.Wait()
	h.measured = m
	if ctx.Err() != nil {
		return h, errors.Join(err, ctx.Err())
	}
	return h, err
}

func short(d time.Duration) string { return d.Round(10 * time.Microsecond).String() }

func haproxyConfig(listen, engine string, streams int) string {
	return fmt.Sprintf(`global
    maxconn %d
defaults
    mode http
    timeout connect 5s
    timeout client 1h
    timeout server 1h
    option http-keep-alive
frontend in
    bind %s
    default_backend engines
backend engines
    option http-no-delay
    server one %s
`, 2*streams+100, listen, engine)
}
