package askusage_test

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
)

// maxEvent is the size, in bytes, of the largest event that is looked at.
const maxEvent = 64 << 10

// rawLine is a line with its end, which the last line may lack.
var rawLine = regexp.MustCompile("[^\r\n]*(\r\n|\r|\n)|[^\r\n]+$")

// stripped is what is to be passed on of a stream, in the plain way: all of it
// in memory, cut into lines and decoded by encoding/json.
func stripped(stream []byte) []byte {
	var out bytes.Buffer
	var event []string // its lines so far
	end := func(blank string) {
		size := len(strings.Join(event, "")) + min(len(blank), 1)
		if len(event) != 1 || size > maxEvent || !isUsageLine(event[0]) {
			out.WriteString(strings.Join(event, "") + blank)
		}
		event = nil
	}
	for _, raw := range rawLine.FindAll(stream, -1) {
		line := string(raw)
		switch {
		case strings.Trim(line, "\r\n") == "":
			end(line)
		case line[0] == ':' && len(event) == 0:
			out.WriteString(line)
		default:
			event = append(event, line)
		}
	}
	end("")
	return out.Bytes()
}

// isUsageLine reports whether a line is the data of a usage chunk.
func isUsageLine(line string) bool {
	data, ok := strings.CutPrefix(line, "data:")
	data = strings.TrimRight(data, "\r\n")
	if !ok || !json.Valid([]byte(data)) {
		return false
	}
	d := json.NewDecoder(strings.NewReader(data))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return false
	}
	choices, usage := false, false
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return false
		}
		var value any
		if d.Decode(&value) != nil {
			return false
		}
		switch key {
		case "choices":
			list, ok := value.([]any)
			if !ok || len(list) > 0 {
				return false
			}
			choices = true
		case "usage":
			if _, usage = value.(map[string]any); !usage {
				return false
			}
		case "error":
			if value != nil {
				return false
			}
		}
	}
	return choices && usage
}
