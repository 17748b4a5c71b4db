package chart

import (
	"fmt"
	"html/template"
	"math"
	"strings"
)

// Sample is a replica's requests at one moment. NaN is missing; where one of
// the two is known, the other counts as 0.
type Sample struct{ At, Running, Waiting float64 }

func (s Sample) shows() bool {
	return Shows(s.At, false) && (Shows(s.Running, false) || Shows(s.Waiting, false))
}

// parts returns the two numbers with 0 for what cannot be shown.
func (s Sample) parts() (running, waiting float64) {
	if Shows(s.Running, false) {
		running = s.Running
	}
	if Shows(s.Waiting, false) {
		waiting = s.Waiting
	}
	return running, waiting
}

// Strip is the load of one replica over time.
type Strip struct {
	Replica string
	Samples []Sample // in the order of At
}

// Strips is a chart of the load of several replicas, one strip above the
// other, the waiting requests on top of the running ones.
type Strips struct {
	ID     string
	Title  string
	Strips []Strip
	// Until is the time and Top the number of requests at which all strips
	// end; give charts that are to be compared the same.
	Until, Top float64
}

// Bounds returns the last moment and the most requests in the strips.
func Bounds(strips []Strip) (until, top float64) {
	for _, strip := range strips {
		for _, s := range strip.Samples {
			if s.shows() {
				running, waiting := s.parts()
				until, top = max(until, s.At), max(top, running+waiting)
			}
		}
	}
	return until, top
}

// Shows says whether the chart has anything to show.
func (c *Strips) Shows() bool {
	for _, strip := range c.Strips {
		for _, s := range strip.Samples {
			if s.shows() {
				return true
			}
		}
	}
	return false
}

const (
	stripLeft  = 92.0
	stripAbove = 30.0
	// pieces is how many stretches of time a strip tells apart, a little over
	// two units of width each. More samples are averaged.
	pieces = 140
)

// SVG draws the chart.
func (c *Strips) SVG() template.HTML {
	height, gap := 34.0, 8.0
	if len(c.Strips) > 8 {
		height, gap = 16, 3
	}
	bottom := stripAbove + float64(len(c.Strips))*(height+gap) - gap
	d := begin(c.ID, c.Title, c.description(), wide, bottom+44)
	d.text(0, 17, "heading", "", c.Title)

	until := c.Until
	if !(until > 1e-9) {
		until = 1
	}
	x := fromZero(until, stripLeft, right)
	x.hi = until
	for len(x.ticks) > 1 && x.ticks[len(x.ticks)-1] > until {
		x.ticks = x.ticks[:len(x.ticks)-1]
	}
	top := c.Top
	if !(top > 1e-9) {
		top = 1
	}
	for i, strip := range c.Strips {
		base := stripAbove + float64(i)*(height+gap) + height
		y := scale{hi: top, from: base, to: base - height}
		d.open("g")
		d.element("title", strip.Replica)
		d.empty("rect", "x", number(stripLeft), "y", number(base-height),
			"width", number(right-stripLeft), "height", number(height), "class", "band")
		d.element("text", fit(strip.Replica, stripLeft-10), "x", number(stripLeft-8),
			"y", number(base-height/2+4.5), "class", "tick", "text-anchor", "end")
		d.areas(thin(strip.Samples, until), x, y)
		d.line(stripLeft, base, right, base, "axis")
		d.close("g")
	}
	d.xTicks(x, bottom)
	d.text((stripLeft+right)/2, bottom+37, "label", "middle", "seconds since the step began")
	return d.end()
}

// areas draws both areas of one strip, with a gap where nothing is known.
func (d *drawing) areas(samples []Sample, x, y scale) {
	var running, waiting path
	for len(samples) > 0 {
		n := 0
		for n < len(samples) && samples[n].shows() {
			n++
		}
		if n == 0 {
			samples = samples[1:]
			continue
		}
		span := samples[:n]
		samples = samples[n:]
		low := make([]float64, n)
		sum := make([]float64, n)
		zero := make([]float64, n)
		queued := false
		for i, s := range span {
			r, w := s.parts()
			low[i], sum[i] = y.at(r), y.at(r+w)
			zero[i] = y.from
			queued = queued || w > 0
		}
		running.area(span, x, low, zero)
		if queued {
			waiting.area(span, x, sum, low)
		}
	}
	if running.b.Len() > 0 {
		d.empty("path", "d", running.b.String(), "class", "running")
	}
	if waiting.b.Len() > 0 {
		d.empty("path", "d", waiting.b.String(), "class", "waiting")
	}
}

// area goes along the upper edge and back along the lower one, without the
// points that lie on a level line.
func (p *path) area(span []Sample, x scale, upper, lower []float64) {
	edge := func(ys []float64, order func(int) int) {
		for k := range ys {
			i := order(k)
			if k > 0 && k < len(ys)-1 && ys[order(k-1)] == ys[i] && ys[order(k+1)] == ys[i] {
				continue
			}
			p.to(x.at(span[i].At), ys[i])
		}
	}
	last := len(span) - 1
	edge(upper, func(k int) int { return k })
	edge(lower, func(k int) int { return last - k })
	p.shut()
}

// thin averages the samples of each of the pieces of the time until the end.
// A piece without a sample, or with nothing known, is a gap if there was a
// missing sample in it, and passed over if not.
func thin(samples []Sample, until float64) []Sample {
	if len(samples) <= pieces {
		return samples
	}
	var out []Sample
	for len(samples) > 0 {
		if !Shows(samples[0].At, false) {
			samples = samples[1:]
			continue
		}
		piece := math.Floor(samples[0].At / until * pieces)
		var known, at, running, waiting float64
		n := 0
		for n < len(samples) && Shows(samples[n].At, false) && math.Floor(samples[n].At/until*pieces) == piece {
			if s := samples[n]; s.shows() {
				r, w := s.parts()
				known++
				at += s.At
				running += r
				waiting += w
			}
			n++
		}
		mean := Sample{At: samples[0].At, Running: math.NaN(), Waiting: math.NaN()}
		if known > 0 {
			mean = Sample{At: at / known, Running: running / known, Waiting: waiting / known}
		}
		out = append(out, mean)
		samples = samples[n:]
	}
	return out
}

// description gives every replica's mean.
func (c *Strips) description() string {
	parts := make([]string, 0, len(c.Strips))
	for _, strip := range c.Strips {
		var n, running, waiting float64
		for _, s := range strip.Samples {
			if s.shows() {
				r, w := s.parts()
				n++
				running += r
				waiting += w
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s %.1f running and %.1f waiting", strip.Replica, running/n, waiting/n))
		}
	}
	return "Requests of each replica over time. Means: " + strings.Join(parts, "; ") + "."
}
