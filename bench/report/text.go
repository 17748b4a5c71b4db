package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// WriteText writes the table for a terminal of some 190 columns: the title and
// what was measured, then a line for each row, with the published rows under
// those with the same number of sessions. Numbers are aligned, a missing one
// is "-", and a column that is missing everywhere is left out. Below it is, for
// each row with failed requests, what the first of them was.
//
// The error is the writer's.
func (t *Table) WriteText(w io.Writer) error {
	groups, _ := t.arrange()
	var b strings.Builder
	t.head(&b)

	shown := known(columns(), groups)
	cells := [][]string{{"", ""}, {"sessions", "policy"}}
	for _, c := range shown {
		cells[0] = append(cells[0], c.top)
		cells[1] = append(cells[1], c.name)
	}
	var ends []int // the lines a group ends with
	for _, g := range groups {
		for _, l := range g.lines {
			one := []string{strconv.Itoa(g.sessions), l.series.label}
			for _, c := range shown {
				one = append(one, c.format(c.of(l.row)))
			}
			cells = append(cells, one)
		}
		ends = append(ends, len(cells))
	}
	align(&b, cells, ends)
	if first := failures(groups); len(first) > 0 {
		b.WriteString("\n" + strings.Join(first, "\n") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// head writes what the table is about, a line for each thing that is known.
func (t *Table) head(b *strings.Builder) {
	for _, line := range t.facts() {
		if line.name == "" {
			fmt.Fprintf(b, "%s\n", line.text)
		} else {
			fmt.Fprintf(b, "%-9s %s\n", line.name, line.text)
		}
	}
	if b.Len() > 0 {
		b.WriteByte('\n')
	}
}

// fact is one thing the table says about itself; the title has no name.
type fact struct{ name, text string }

func (t *Table) facts() []fact {
	seeds := make([]string, len(t.Seeds))
	for i, seed := range t.Seeds {
		seeds[i] = strconv.FormatUint(seed, 10)
	}
	var some []fact
	for _, f := range []fact{
		{"", t.Title},
		{"workload", t.Workload},
		{"engines", t.Engines},
		{"seeds", strings.Join(seeds, ", ")},
	} {
		if f.text != "" {
			some = append(some, fact{f.name, printable(f.text)})
		}
	}
	return some
}

// failures are what the first failed requests of the lines were.
func failures(groups []group) []string {
	var all []string
	for _, g := range groups {
		for _, l := range g.lines {
			if what := l.row.FirstFailure; what != "" {
				all = append(all, fmt.Sprintf("%s, %s, first failed request: %s", l.series.label, sessions(g.sessions), printable(what)))
			}
		}
	}
	return all
}

// align writes the cells in columns, all to the right but the policy, with an
// empty line between groups of more than one line.
func align(b *strings.Builder, cells [][]string, ends []int) {
	widths := make([]int, len(cells[0]))
	for _, one := range cells {
		for i, cell := range one {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	const policy = 1
	spaced := len(cells) > 2+len(ends)
	for n, one := range cells {
		if spaced && len(ends) > 0 && n == ends[0] {
			ends = ends[1:]
			b.WriteByte('\n')
		}
		var out strings.Builder
		for i, cell := range one {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i > 0 {
				out.WriteString("  ")
			}
			if i == policy {
				out.WriteString(cell + pad)
			} else {
				out.WriteString(pad + cell)
			}
		}
		b.WriteString(strings.TrimRight(out.String(), " "))
		b.WriteByte('\n')
	}
}
