package main

import (
	"errors"
	"flag"
	"io"
	"os"
	"sync"

	"github.com/warmroute/warmroute/bench/report"
)

// output is where a table goes besides the terminal.
type output struct {
	html, json, csv string
}

func (o *output) add(flags *flag.FlagSet) {
	flags.StringVar(&o.html, "html", "", "write the table and charts to this `file`, one page that needs nothing else")
	flags.StringVar(&o.json, "json", "", "write all figures to this `file`, the load over time included")
	flags.StringVar(&o.csv, "csv", "", "write the table to this `file` for a spreadsheet")
}

// write writes the table to where it goes.
func (o *output) write(t *report.Table, stdout io.Writer) error {
	errs := []error{t.WriteText(stdout)}
	for _, to := range []struct {
		name  string
		write func(io.Writer) error
	}{{o.html, t.WriteHTML}, {o.json, t.WriteJSON}, {o.csv, t.WriteCSV}} {
		if to.name != "" {
			errs = append(errs, writeFile(to.name, to.write))
		}
	}
	return errors.Join(errs...)
}

func writeFile(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// progress shows how far a run is. The number of steps comes with the first of
// them.
type progress struct {
	w io.Writer

	mu    sync.Mutex
	shown *report.Progress
}

func (p *progress) step(what string, _, of int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown == nil {
		p.shown = report.NewProgress(p.w, of, terminal(p.w))
	}
	p.shown.Step(what)
}

func (p *progress) update(detail string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shown.Update(detail)
}

func (p *progress) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shown.Close()
}

// terminal reports whether lines can be written over.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
