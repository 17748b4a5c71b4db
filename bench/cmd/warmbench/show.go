package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/warmroute/warmroute/bench/report"
)

func show(_ context.Context, args []string, stdout, stderr io.Writer) error {
	flags := newFlags("show", "warmbench show [flags] FILE... prints tables that were written with -json, all rows together under the first one's title.", "", stderr)
	var out output
	out.add(flags)
	if err := parse(flags, args, true); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return wrongUsage("no file is named")
	}
	for _, name := range flags.Args() {
		if len(name) > 1 && name[0] == '-' { // package flag stops at the first file
			return wrongUsage("%s comes after a file: flags come first; a file of that name is ./%s", name, name)
		}
	}
	var all *report.Table
	for _, name := range flags.Args() {
		t, err := readTable(name)
		if err != nil {
			return err
		}
		if all == nil {
			all = t
			continue
		}
		all.Rows = append(all.Rows, t.Rows...)
	}
	return out.write(all, stdout)
}

func readTable(name string) (*report.Table, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := report.ReadJSON(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return t, nil
}
