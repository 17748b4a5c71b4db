package fakevllm

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTextIsReadAsJSONDoes(t *testing.T) {
	for _, quoted := range []string{
		`""`, `"plain text"`, `"a \"quoted\" word\n"`, `"\u00e9"`, `"é"`, "\"\xff\"", `"\ud800"`, `"<&>"`, `null`,
	} {
		var want string
		assert.NoError(t, json.Unmarshal([]byte(quoted), &want), quoted)
		var got content
		assert.NoError(t, json.Unmarshal([]byte(quoted), &got), quoted)
		assert.Equal(t, want, string(got), quoted)
	}
}
