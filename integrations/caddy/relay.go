package warmroutecaddy

import (
	"context"
	"log/slog"
	"sync/atomic"
)

// relay is where a router logs: to the logger of the configuration that is in
// force. A router outlives the configuration that it was made for, whose logs
// may be closed.
type relay struct{ current atomic.Pointer[slog.Logger] }

func (r *relay) logger() *slog.Logger { return slog.New(relayed{relay: r}) }

// relayed is a handler of the relay's, with what was added to it.
type relayed struct {
	relay *relay
	add   func(slog.Handler) slog.Handler // nil: nothing
}

func (h relayed) handler() slog.Handler {
	logger := h.relay.current.Load()
	if logger == nil {
		return slog.DiscardHandler
	}
	if h.add == nil {
		return logger.Handler()
	}
	return h.add(logger.Handler())
}

func (h relayed) Enabled(ctx context.Context, level slog.Level) bool {
	return h.handler().Enabled(ctx, level)
}

func (h relayed) Handle(ctx context.Context, record slog.Record) error {
	return h.handler().Handle(ctx, record)
}

func (h relayed) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.and(func(inner slog.Handler) slog.Handler { return inner.WithAttrs(attrs) })
}

func (h relayed) WithGroup(name string) slog.Handler {
	return h.and(func(inner slog.Handler) slog.Handler { return inner.WithGroup(name) })
}

func (h relayed) and(add func(slog.Handler) slog.Handler) slog.Handler {
	before := h.add
	return relayed{relay: h.relay, add: func(inner slog.Handler) slog.Handler {
		if before != nil {
			inner = before(inner)
		}
		return add(inner)
	}}
}
