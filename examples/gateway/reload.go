package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/config"
)

// reloader applies a changed configuration file to the router in use.
type reloader struct {
	file   configFile // in force
	router *warmroute.Router
	source *source
	logger *slog.Logger
}

// run reloads at each signal until ctx ends.
func (r *reloader) run(ctx context.Context, signals <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-signals:
		}
		if err := r.reload(ctx); err != nil {
			r.logger.Error("configuration not reloaded: the one before stays in force", "file", r.file.path, "err", err)
			continue
		}
		r.logger.Info("configuration reloaded", "file", r.file.path, "endpoints", len(r.router.Replicas()))
	}
}

// reload reads the file again and applies what has changed: all of it, or after an
// error nothing. Requests in flight go on to their end.
func (r *reloader) reload(ctx context.Context) error {
	next, err := readConfig(r.file.path)
	if err != nil {
		return err
	}
	if err := r.file.config.Fixed(next.config, r.models()...); err != nil {
		return err
	}
	// The pools go first: one that is new begins as the file says.
	pools := func() error { return r.router.SetPools(next.settings.All, next.settings.ByModel) }
	if r.sameEndpoints(next) {
		err = pools()
	} else {
		err = r.source.use(ctx, next.discoverer(), pools)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", next.path, err)
	}
	r.file = next
	return nil
}

// sameEndpoints reports whether there is nothing to be found anew, so that a name
// server that is away does not keep the rest from being reloaded.
func (r *reloader) sameEndpoints(next configFile) bool {
	old := r.file
	return slices.Equal(old.settings.Targets, next.settings.Targets) &&
		reflect.DeepEqual(old.config.Discovery, next.config.Discovery) &&
		!slices.ContainsFunc(next.config.Discovery, func(d config.Discovery) bool { return d.HasKey() })
}

// models are those of the pools that there are.
func (r *reloader) models() []string {
	var out []string
	for _, p := range r.router.Stats().Pools {
		out = append(out, p.Model)
	}
	return out
}
