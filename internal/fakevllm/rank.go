package fakevllm

import (
	"net/http"
	"strconv"
	"strings"
)

// balanced is the rank of a request that leaves the choice to the server.
const balanced = -1

// rankHeader names the header that pins a request to a rank.
const rankHeader = "X-Data-Parallel-Rank"

// pinnedRank returns the rank a request asks for, or balanced. The error is
// the one for a rank that does not exist; a streamed request gets it in the
// stream (vLLM 0.16 and later).
func (s *Server) pinnedRank(r *http.Request) (int, *apiError) {
	major, minor := 0, 14
	if r.URL.Path == responsesPath {
		minor = 33
	}
	if !s.version(major, minor) {
		return balanced, nil
	}
	text, ok := pythonInt(r.Header.Get(rankHeader))
	if !ok {
		return balanced, nil
	}
	ranks := len(s.life.Load().ranks)
	rank, err := strconv.Atoi(text)
	if err != nil || rank < 0 || rank >= ranks {
		return balanced, bad("", "data_parallel_rank %s is out of range [0, %d).", text, ranks)
	}
	return rank, nil
}

// pythonInt returns the decimal digits of what Python's int() takes: space
// around it, one sign, single underscores between digits.
func pythonInt(s string) (string, bool) {
	digits := strings.TrimSpace(s)
	negative := strings.HasPrefix(digits, "-")
	if negative || strings.HasPrefix(digits, "+") {
		digits = digits[1:]
	}
	if strings.HasPrefix(digits, "_") || strings.HasSuffix(digits, "_") || strings.Contains(digits, "__") {
		return "", false
	}
	digits = strings.ReplaceAll(digits, "_", "")
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return "", false
	}
	digits = strings.TrimLeft(digits, "0")
	switch {
	case digits == "":
		return "0", true
	case negative:
		return "-" + digits, true
	default:
		return digits, true
	}
}
