package fakevllm_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/internal/fakevllm"
)

type chatMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type chatBody struct {
	Messages  []chatMessage `json:"messages"`
	MaxTokens int           `json:"max_tokens,omitempty"`
	Stream    bool          `json:"stream,omitempty"`
}

// words returns a text of n tokens that no other name shares.
func words(name string, n int) string {
	return strings.Repeat(fmt.Sprintf("%-4.4s", name), n)
}

type reply struct {
	text           string
	prompt, cached int
}

// chat sends a whole request and reads the answer and its usage.
func chat(t *testing.T, s *fakevllm.Server, rank string, tokens int, messages ...chatMessage) reply {
	t.Helper()
	status, body := post(t, s, ask{rank: rank, body: chatBody{Messages: messages, MaxTokens: tokens}})
	require.Equal(t, 200, status, body)
	var got struct {
		Choices []struct {
			Message chatMessage
		}
		Usage struct {
			Prompt  int `json:"prompt_tokens"`
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(body), &got))
	return reply{got.Choices[0].Message.Content, got.Usage.Prompt, got.Usage.Details.Cached}
}

func user(text string) chatMessage      { return chatMessage{"user", text} }
func system(text string) chatMessage    { return chatMessage{"system", text} }
func assistant(text string) chatMessage { return chatMessage{"assistant", text} }

func TestStepsTakeTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, fakevllm.Config{Ranks: 1, LogSize: 1})
		// 3 + 2991 + 2 + 4 = 3,000 tokens: one step of 2,048 and one of 952.
		chat(t, s, "", 3, user(words("long", 2991)))
		run := s.Log()[0]
		require.Equal(t, 3000, run.PromptTokens)
		assert.InDelta(t, 1.066, run.FirstToken.Sub(run.Arrived).Seconds(), 1e-6, "two steps, a second of prefill")
		assert.InDelta(t, 0.066+0.00035*(3.001+3.002), run.Ended.Sub(run.FirstToken).Seconds(), 1e-6, "two steps over the context")
		assert.Equal(t, 4, s.Rank(0).Steps)
	})
}

func TestConversationHitsItsRank(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, fakevllm.Config{Ranks: 2})
		talk := []chatMessage{system(words("rule", 60)), user(words("why", 100))}
		first := chat(t, s, "0", 40, talk...)
		assert.Zero(t, first.cached)

		talk = append(talk, assistant(first.text), user(words("how", 10)))
		second := chat(t, s, "0", 40, talk...)
		// All of the first prompt and of its answer but the token whose keys
		// were never computed, in full blocks.
		assert.Equal(t, (first.prompt+39)/16*16, second.cached)
		assert.Greater(t, second.cached, first.prompt)

		elsewhere := chat(t, s, "1", 1, talk...)
		assert.Zero(t, elsewhere.cached)

		// Another conversation shares the system prompt (4 + 60 + 2 tokens).
		other := chat(t, s, "0", 1, system(words("rule", 60)), user("something else"))
		assert.Equal(t, 64, other.cached)

		again := chat(t, s, "0", 40, talk...)
		assert.Equal(t, (again.prompt-1)/16*16, again.cached, "the last token is always computed")
		assert.Equal(t, second.text, again.text)
		c := s.Rank(0)
		assert.Equal(t, second.cached+other.cached+again.cached, c.CachedTokens)
		assert.Equal(t, c.PromptTokens-c.CachedTokens, c.ComputedTokens)
	})
}

func TestWholeBlocksAreRecomputedForTheLastToken(t *testing.T) {
	s := start(t, fast())
	for _, want := range []int{0, 48} {
		got := chat(t, s, "0", 1, user(words("full", 64-9)))
		assert.Equal(t, 64, got.prompt)
		assert.Equal(t, want, got.cached)
	}
}

func TestRoomGoesToTheLatest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Room for 20 blocks; each conversation takes 6 and 1 for the answer's
		// first token, which is not full and goes first.
		s := start(t, fakevllm.Config{Ranks: 1, Blocks: 21})
		send := func(name string) int { return chat(t, s, "0", 1, user(words(name, 96-9))).cached }
		for _, name := range []string{"a", "b", "c"} {
			assert.Zero(t, send(name))
		}
		assert.Equal(t, 80, send("a"), "used again, so b is the oldest now")
		assert.Zero(t, send("d"))
		assert.Equal(t, 80, send("a"))
		assert.Equal(t, 80, send("c"))
		assert.Less(t, send("b"), 80)
	})
}

func TestFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, fakevllm.Config{Ranks: 1, MaxNumSeqs: 2, LogSize: 100})
		var all sync.WaitGroup
		for i := range 8 {
			time.Sleep(time.Millisecond)
			all.Go(func() {
				post(t, s, ask{session: fmt.Sprint(i), body: chatBody{Messages: []chatMessage{user(words(fmt.Sprint(i), 50))}, MaxTokens: 5 + i%2}})
			})
		}
		synctest.Wait()
		c := s.Rank(0)
		assert.Equal(t, 8, c.Running+c.Waiting)
		assert.LessOrEqual(t, c.Running, 2)
		all.Wait()
		runs := s.Log()
		slices.SortStableFunc(runs, func(a, b fakevllm.Run) int { return a.FirstToken.Compare(b.FirstToken) })
		for i, run := range runs {
			assert.Equal(t, fmt.Sprint(i), run.Session)
		}
	})
}

func TestLastAdmittedIsPreempted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// 20 blocks hold two prompts of 6 blocks, and one answer of 10 more.
		s := start(t, fakevllm.Config{Ranks: 1, Blocks: 21, LogSize: 2})
		var all sync.WaitGroup
		for _, name := range []string{"old", "new"} {
			all.Go(func() {
				post(t, s, ask{session: name, body: chatBody{Messages: []chatMessage{user(words(name, 90))}, MaxTokens: 160}})
			})
			time.Sleep(time.Millisecond)
		}
		all.Wait()
		c := s.Rank(0)
		assert.Positive(t, c.Preemptions)
		assert.Equal(t, 2, c.Finished)
		assert.Equal(t, 2*160, c.GenerationTokens)
		assert.Equal(t, 2*99, c.PromptTokens)
		assert.Greater(t, c.ComputedTokens, 2*99, "what was lost is computed again")
		runs := s.Log()
		assert.Equal(t, "old", runs[0].Session)
		assert.Equal(t, "new", runs[1].Session)
		assert.Equal(t, c.Blocks, c.FreeBlocks)
	})
}

func TestAdmissionWaitsForTheWholePrompt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, fakevllm.Config{Ranks: 1, Blocks: 21, MaxBatchedTokens: 32})
		stream(t, s, ask{body: chatBody{Messages: []chatMessage{user(words("a", 140))}, MaxTokens: 100, Stream: true}})
		time.Sleep(10 * time.Millisecond)
		stream(t, s, ask{body: chatBody{Messages: []chatMessage{user(words("b", 180))}, MaxTokens: 10, Stream: true}})
		time.Sleep(10 * time.Millisecond)
		stream(t, s, ask{body: chatBody{Messages: []chatMessage{user("c")}, MaxTokens: 10, Stream: true}})
		time.Sleep(time.Second)
		c := s.Rank(0)
		assert.Equal(t, 1, c.Running, "a holds 10 blocks, b needs 12 of 20")
		assert.Equal(t, 2, c.Waiting, "c would fit but came after b")
	})
}

// workload sends requests of many conversations to a small server, some of
// which are given up on the way. It returns when all has ended.
func workload(t *testing.T, s *fakevllm.Server, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	var all sync.WaitGroup
	for i := range 300 {
		time.Sleep(time.Duration(1 + rng.IntN(int(40*time.Millisecond))))
		conversation := rng.IntN(20)
		messages := []chatMessage{system(words("rule", 20)), user(words(fmt.Sprint(conversation), 1+rng.IntN(150)))}
		body := chatBody{Messages: messages, MaxTokens: 1 + rng.IntN(80), Stream: rng.IntN(2) == 0}
		patience := time.Hour
		if rng.IntN(4) == 0 {
			patience = time.Duration(rng.IntN(int(2 * time.Second)))
		}
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			resp, err := s.RoundTrip(ask{ctx: ctx, session: fmt.Sprint(i), body: body}.request(t))
			if err == nil {
				for buf := make([]byte, 512); err == nil; {
					_, err = resp.Body.Read(buf)
				}
				_ = resp.Body.Close()
			}
		})
	}
	all.Wait()
	synctest.Wait()
	time.Sleep(time.Minute)
}

func small(seed uint64) fakevllm.Config {
	return fakevllm.Config{Ranks: 2, Blocks: 41, MaxNumSeqs: 4, MaxBatchedTokens: 64, LogSize: 1000, Seed: seed}
}

func TestNothingIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, small(1))
		workload(t, s, 1)
		accepted, aborted, preempted := 0, 0, 0
		for rank := range 2 {
			c := s.Rank(rank)
			assert.Zero(t, c.Running+c.Waiting+c.KVTokens+c.Failed)
			assert.Equal(t, c.Requests, c.Finished+c.Aborted)
			assert.Equal(t, c.Blocks, c.FreeBlocks)
			accepted += c.Requests
			aborted += c.Aborted
			preempted += c.Preemptions
		}
		assert.Equal(t, 300, accepted)
		assert.Positive(t, aborted)
		assert.Positive(t, preempted)
		assert.Len(t, s.Log(), 300)
	})
}

// rush has conversations on every rank that all begin at once and go on
// without a pause, so that most of what happens happens at the same moments.
func rush(t *testing.T, s *fakevllm.Server) {
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			talk := []chatMessage{system(words("rule", 20))}
			for range 6 {
				talk = append(talk, user(words(fmt.Sprint(i), 10+i)))
				_, body := post(t, s, ask{rank: fmt.Sprint(i % 2), session: fmt.Sprint(i), body: chatBody{Messages: talk, MaxTokens: 10}})
				var got struct {
					Choices []struct{ Message chatMessage }
				}
				if assert.NoError(t, json.Unmarshal([]byte(body), &got)) && assert.Len(t, got.Choices, 1) {
					talk = append(talk, got.Choices[0].Message)
				}
			}
		})
	}
	all.Wait()
}

func TestSameSeedSameRuns(t *testing.T) {
	loads := map[string]func(*testing.T, *fakevllm.Server){
		"scattered": func(t *testing.T, s *fakevllm.Server) { workload(t, s, 7) },
		"at once":   rush,
	}
	for name, load := range loads {
		t.Run(name, func(t *testing.T) {
			logs := make([][]fakevllm.Run, 2)
			for i := range logs {
				synctest.Test(t, func(t *testing.T) {
					s := start(t, small(7))
					load(t, s)
					logs[i] = s.Log()
				})
				slices.SortFunc(logs[i], func(a, b fakevllm.Run) int {
					return cmp.Or(strings.Compare(a.Session, b.Session), a.Arrived.Compare(b.Arrived))
				})
			}
			require.NotEmpty(t, logs[0])
			assert.Equal(t, logs[0], logs[1])
		})
	}
}

func TestWordsDependOnSeedAndPrompt(t *testing.T) {
	say := func(seed uint64, rank, prompt string) string {
		cfg := fast()
		cfg.Seed = seed
		return chat(t, start(t, cfg), rank, 8, user(prompt)).text
	}
	want := say(1, "0", "hi")
	assert.Len(t, want, 8*4)
	assert.Equal(t, want, strings.TrimSpace(want), "trimming changes nothing")
	assert.Equal(t, want, say(1, "3", "hi"))
	assert.NotEqual(t, want, say(2, "0", "hi"))
	assert.NotEqual(t, want, say(1, "0", "ho"))
}

func TestAPIsShareTheCache(t *testing.T) {
	cfg := fast()
	cfg.Ranks = 1
	s := start(t, cfg)
	chat(t, s, "", 1, system("be brief"), user(forty))
	_, body := post(t, s, ask{path: "/v1/messages", body: `{"model":"sim","system":"be brief","messages":[{"role":"user","content":"` + forty + `"}],"max_tokens":1}`})
	assert.Contains(t, body, `"cache_read_input_tokens":48`)
	_, body = post(t, s, ask{path: "/v1/responses", body: `{"instructions":"be brief","input":"` + forty + `","max_output_tokens":1}`})
	assert.Contains(t, body, `"cached_tokens":48`)
}
