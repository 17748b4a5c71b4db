package usage

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// quietEvent is the size of the event p begins with, blank line included, if
// it is whole in p, has a single data field with a JSON object, and nothing in
// it can matter to member. It is 0 if the event has to be read, or may have to.
//
// Nearly all events of a stream are pieces of text, and are told by a look at
// their bytes at a fraction of the cost of reading them.
func quietEvent(p []byte) int {
	const field = "data:"
	if len(p) < len(field) || string(p[:len(field)]) != field {
		return 0
	}
	end := bytes.IndexByte(p[:min(len(p), maxLook)], '\n')
	if end < 0 {
		return 0
	}
	data, blank := p[len(field):end], "\n"
	if bytes.HasSuffix(data, []byte{'\r'}) {
		data, blank = data[:len(data)-1], "\r\n"
	}
	size := end + 1 + len(blank)
	if len(p) < size || string(p[end+1:size]) != blank || bytes.IndexByte(data, '\r') >= 0 {
		return 0
	}
	if data = bytes.TrimPrefix(data, []byte{' '}); len(data) == 0 || data[0] != '{' || isLoud(data) {
		return 0
	}
	return size
}

// isLoud reports whether data, a JSON object, has a key or string that member
// acts upon, in whatever place, or one that could be it in escaped form. Each
// thing member does takes one of these: usage, error, abort, response and
// message_stop; a code counts only beside an error. It must be kept in step with member.
func isLoud(data []byte) bool {
	// Eight bytes at a time, find the quotes that are followed by the first
	// letter of one of the words, and the \u escapes. The letters a, e and u
	// (and q) differ in two bits only.
	i := 0
	for ; len(data)-i > 8; i += 8 {
		here := binary.LittleEndian.Uint64(data[i:])
		next := binary.LittleEndian.Uint64(data[i+1:])
		aeu := zeros((next | 0x14*ones) ^ 'u'*ones)
		quoted := zeros(here^'"'*ones) & (aeu | zeros(next^'m'*ones) | zeros(next^'r'*ones))
		escaped := zeros(here^'\\'*ones) & aeu
		for found := quoted | escaped; found != 0; found &= found - 1 {
			if beginsLoud(data[i+bits.TrailingZeros64(found)/8:]) {
				return true
			}
		}
	}
	for ; i < len(data); i++ {
		if beginsLoud(data[i:]) {
			return true
		}
	}
	return false
}

func beginsLoud(data []byte) bool {
	if data[0] == '\\' {
		return len(data) > 1 && data[1] == 'u'
	}
	return bytes.HasPrefix(data, []byte(`"usage"`)) ||
		bytes.HasPrefix(data, []byte(`"error"`)) ||
		bytes.HasPrefix(data, []byte(`"abort"`)) ||
		bytes.HasPrefix(data, []byte(`"response"`)) ||
		bytes.HasPrefix(data, []byte(`"message_stop"`))
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// zeros has the high bit set of every byte that is zero in x, and perhaps of
// bytes above one that is.
func zeros(x uint64) uint64 { return (x - ones) &^ x & highs }
