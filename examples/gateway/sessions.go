package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/affinity"
)

// restoreSessions reads what saveSessions left. A file that is not there is a
// first start; one that is damaged is said to be so and put aside, since a
// gateway without bindings is better than none.
func restoreSessions(router *warmroute.Router, path string, logger *slog.Logger) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	n := 0
	if err == nil {
		defer f.Close()
		n, err = router.Restore(f)
	}
	if err != nil {
		logger.Error("sessions not restored", "file", path, "err", err)
		if errors.Is(err, affinity.ErrSnapshot) {
			if err := os.Rename(path, path+".damaged"); err != nil {
				logger.Error("damaged file not put aside", "file", path, "err", err)
			}
		}
		return
	}
	logger.Info("sessions restored", "file", path, "sessions", n)
}

// saveSessions writes beside the file first and then puts it in its place, so
// that there is always a whole one.
func saveSessions(router *warmroute.Router, path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // readable by its owner alone
	if err != nil {
		return fmt.Errorf("sessions not saved: %w", err)
	}
	err = router.Save(f)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("sessions not saved: %w", err), os.Remove(f.Name()))
	}
	return nil
}
