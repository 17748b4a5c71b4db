package report

import (
	"strings"
	"unicode"
)

// line is a row as it is shown.
type line struct {
	row    *Row
	series series
}

// group is the lines with the same number of sessions, the published ones
// last.
type group struct {
	sessions int
	lines    []line
}

// series is what has the same name and line in every chart: a policy, as
// measured or as published.
type series struct {
	id        int // its place among all series
	style     int // its colour and marker; shared by what was measured and published of one policy
	label     string
	published bool
}

// arrange returns the table's lines and its series in the order they are
// shown.
func (t *Table) arrange() ([]group, []series) {
	var (
		groups []group
		all    []series
		place  = map[int]int{}             // sessions to their group
		styles = map[string]int{}          // policy to its style
		ids    = [2]map[string]int{{}, {}} // policy to its series, measured and published
	)
	add := func(row *Row, published bool) {
		style, ok := styles[row.Policy]
		if !ok {
			style = len(styles)
			styles[row.Policy] = style
		}
		kind, label := ids[0], printable(row.Policy)
		if published {
			kind, label = ids[1], label+" (published)"
		}
		id, ok := kind[row.Policy]
		if !ok {
			id = len(all)
			kind[row.Policy] = id
			all = append(all, series{id: id, style: style, label: label, published: published})
		}
		g := &groups[place[row.Sessions]]
		g.lines = append(g.lines, line{row: row, series: all[id]})
	}
	for i := range t.Rows {
		row := &t.Rows[i]
		if _, ok := place[row.Sessions]; !ok {
			place[row.Sessions] = len(groups)
			groups = append(groups, group{sessions: row.Sessions})
		}
		add(row, false)
	}
	for i := range t.Published {
		if row := &t.Published[i]; hasKey(place, row.Sessions) {
			add(row, true)
		}
	}
	return groups, all
}

func hasKey(m map[int]int, key int) bool {
	_, ok := m[key]
	return ok
}

func anyLine(groups []group, is func(line) bool) bool {
	for _, g := range groups {
		for _, l := range g.lines {
			if is(l) {
				return true
			}
		}
	}
	return false
}

// printable replaces what could steer a terminal or break XML: control and
// format characters and bytes that are no UTF-8.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}
