package fakevllm_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/internal/fakevllm"
)

func TestStreamInterval(t *testing.T) {
	tests := []struct {
		every, tokens int
		want          string // tokens of each event @ the second it comes in
	}{
		{1, 3, "1@1 1@2 1@3"},
		{4, 1, "1@1"},
		{4, 2, "1@1 1@2"},
		{4, 5, "1@1 4@5"},
		{4, 6, "1@1 4@5 1@6"},
		{4, 10, "1@1 4@5 4@9 1@10"},
		{100, 10, "1@1 9@10"},
	}
	for _, test := range tests {
		t.Run(fmt.Sprint(test.every, " of ", test.tokens), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := start(t, fakevllm.Config{StepTime: time.Second, ContextCost: 1, PrefillRate: 1e9, StreamInterval: test.every})
				begun := time.Now()
				resp, err := s.RoundTrip(ask{body: chatBody{
					Messages: []chatMessage{user("hi")}, MaxTokens: test.tokens, Stream: true,
				}}.request(t))
				require.NoError(t, err)
				var got []string
				var text string
				in := bufio.NewScanner(resp.Body)
				for in.Scan() {
					data, ok := strings.CutPrefix(in.Text(), "data: ")
					if !ok || data == "[DONE]" {
						continue
					}
					var event struct {
						Choices []struct {
							Delta  struct{ Content string }
							Finish *string `json:"finish_reason"`
						}
					}
					require.NoError(t, json.Unmarshal([]byte(data), &event))
					content := event.Choices[0].Delta.Content
					text += content
					if content != "" {
						got = append(got, fmt.Sprintf("%d@%d", len(content)/4, time.Since(begun)/time.Second))
					}
					assert.Equal(t, len(text) == 4*test.tokens, event.Choices[0].Finish != nil)
				}
				require.NoError(t, in.Err())
				assert.Equal(t, test.want, strings.Join(got, " "))
				whole := chat(t, s, "", test.tokens, user("hi"))
				assert.Equal(t, whole.text, text)
			})
		})
	}
}
