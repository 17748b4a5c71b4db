package chart

// box is a rectangle; y grows downwards.
type box struct{ left, top, right, bottom float64 }

func around(x, y, r float64) box { return box{x - r, y - r, x + r, y + r} }

func (b box) meets(o box) bool {
	return b.left < o.right && o.left < b.right && b.top < o.bottom && o.top < b.bottom
}

// room keeps labels off each other and off the markers.
type room struct {
	left, right, top, bottom float64
	taken                    []box
}

func (r *room) take(b box) { r.taken = append(r.taken, b) }

// spot is where a label goes.
type spot struct {
	x, y   float64 // of the text's baseline
	anchor string
	// endX and endY are where a leader line meets the text.
	endX, endY float64
	far        bool // far enough from its point to need one
}

// label finds and takes a free spot for a text of that width near a point: to
// its right, its left, above or below it, and further away where these are
// taken. Where nothing is free it is the first of these that fits the room.
func (r *room) label(x, y, width float64) spot {
	const (
		gap    = 9.0
		ascent = 10.0
		base   = 4.5 // from the middle of a text to its baseline
	)
	var fallback *spot
	for _, away := range []float64{0, 14, 28, 42, 56, 70, 84} {
		var all []spot
		rises := []float64{-away, away}
		if away == 0 {
			rises = rises[:1]
		}
		for _, rise := range rises {
			all = append(all,
				spot{x: x + gap + away/3, y: y + base + rise, anchor: "start"},
				spot{x: x - gap - away/3, y: y + base + rise, anchor: "end"})
		}
		all = append(all,
			spot{x: x, y: y - gap - away, anchor: "middle"},
			spot{x: x, y: y + gap + ascent + away, anchor: "middle"})
		for _, s := range all {
			b := box{s.x, s.y - ascent, s.x + width, s.y + 3}
			switch s.anchor {
			case "end":
				b.left, b.right = s.x-width, s.x
			case "middle":
				b.left, b.right = s.x-width/2, s.x+width/2
			}
			if b.left < r.left || b.right > r.right || b.top < r.top || b.bottom > r.bottom {
				continue
			}
			s.endX, s.endY, s.far = s.x, s.y-base, away > 0
			if s.anchor == "middle" {
				s.endY = b.bottom
				if s.y > y {
					s.endY = b.top
				}
			}
			if fallback == nil {
				first := s
				fallback = &first
			}
			if r.free(b) {
				r.take(b)
				return s
			}
		}
	}
	if fallback == nil {
		fallback = &spot{x: r.left, y: y - gap, anchor: "start", endX: x, endY: y}
	}
	return *fallback
}

func (r *room) free(b box) bool {
	for _, o := range r.taken {
		if b.meets(o) {
			return false
		}
	}
	return true
}
