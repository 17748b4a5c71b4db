package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// newFlags makes the flag set of a command. Its help begins with what is said
// about the command and ends with what is said after the flags.
func newFlags(name, about, after string, stderr io.Writer) *flag.FlagSet {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintf(stderr, "%s\n\nFlags:\n", about)
		flags.PrintDefaults()
		if after != "" {
			fmt.Fprintf(stderr, "\n%s", after)
		}
	}
	return flags
}

// parse parses a command line without arguments beside flags, but for files
// where they are wanted.
func parse(flags *flag.FlagSet, args []string, files bool) error {
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return &usageError{err: err, said: true}
	}
	if flags.NArg() > 0 && !files {
		return wrongUsage("unexpected argument %q", flags.Arg(0))
	}
	return nil
}

// given are the names of the flags that are on the command line.
func given(flags *flag.FlagSet) map[string]bool {
	names := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { names[f.Name] = true })
	return names
}

// ints is a flag of whole numbers above 0, separated by commas.
type ints []int

func (l *ints) String() string {
	var all []string
	for _, n := range *l {
		all = append(all, strconv.Itoa(n))
	}
	return strings.Join(all, ",")
}

func (l *ints) Set(s string) error {
	*l = nil
	for _, word := range strings.Split(s, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || n < 1 {
			return fmt.Errorf("%q is no whole number above 0", word)
		}
		*l = append(*l, n)
	}
	return nil
}

// words is a flag of names separated by commas. More of the same flag add up
// if it says so.
type words struct {
	all  []string
	more bool
}

func (l *words) String() string { return strings.Join(l.all, ",") }

func (l *words) Set(s string) error {
	if !l.more {
		l.all = nil
	}
	for _, word := range strings.Split(s, ",") {
		if word = strings.TrimSpace(word); word == "" {
			return errors.New("an empty name")
		}
		l.all = append(l.all, word)
	}
	return nil
}
