package sdktest_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	goopenai "github.com/sashabaranov/go-openai"

	"github.com/warmroute/warmroute"
)

// sdk is one API of one SDK.
type sdk struct {
	name string
	// retries says that it repeats by itself what failed.
	retries bool
	client  func(url string, client *http.Client) client
}

var sdks = []sdk{
	{"openai-go chat", true, newOpenAIChat},
	{"openai-go responses", true, newOpenAIResponses},
	{"anthropic-sdk-go messages", true, newAnthropic},
	{"go-openai chat", false, newGoOpenAI},
}

// client sends turns of a conversation: all that its user has said so far.
type client interface {
	// ask waits for the whole answer and returns its text.
	ask(ctx context.Context, session string, users []string, limit int) (string, error)
	// stream starts a streamed answer. An error may show in the stream only.
	stream(ctx context.Context, session string, users []string, limit int) (stream, error)
	// within is ask with the SDK's own timeout.
	within(ctx context.Context, d time.Duration, limit int) error
}

// stream is what the SDKs' streams have in common.
type stream interface {
	// next returns the next piece of text; false at the end or at an error.
	next() (string, bool)
	err() error
	close() error
}

// reply is what the assistant is said to have answered.
const reply = "I see."

type openAIChat struct{ c openai.Client }

func openAIOptions(url string, client *http.Client) []option.RequestOption {
	return []option.RequestOption{option.WithBaseURL(url + "/v1/"), option.WithAPIKey("key"), option.WithHTTPClient(client)}
}

func newOpenAIChat(url string, client *http.Client) client {
	return openAIChat{openai.NewClient(openAIOptions(url, client)...)}
}

func (o openAIChat) params(users []string, limit int) openai.ChatCompletionNewParams {
	p := openai.ChatCompletionNewParams{Model: "sim", MaxCompletionTokens: openai.Int(int64(limit))}
	for i, text := range users {
		if i > 0 {
			p.Messages = append(p.Messages, openai.AssistantMessage(reply))
		}
		p.Messages = append(p.Messages, openai.UserMessage(text))
	}
	return p
}

func (o openAIChat) ask(ctx context.Context, session string, users []string, limit int) (string, error) {
	answer, err := o.c.Chat.Completions.New(ctx, o.params(users, limit), option.WithHeader("X-Session-Id", session))
	if err != nil {
		return "", err
	}
	return answer.Choices[0].Message.Content, nil
}

func (o openAIChat) within(ctx context.Context, d time.Duration, limit int) error {
	_, err := o.c.Chat.Completions.New(ctx, o.params([]string{"hello"}, limit), option.WithRequestTimeout(d), option.WithMaxRetries(0))
	return err
}

func (o openAIChat) stream(ctx context.Context, session string, users []string, limit int) (stream, error) {
	p := o.params(users, limit)
	p.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
	s := o.c.Chat.Completions.NewStreaming(ctx, p, option.WithHeader("X-Session-Id", session))
	return decoded[openai.ChatCompletionChunk]{s, func(c openai.ChatCompletionChunk) string {
		if len(c.Choices) == 0 {
			return ""
		}
		return c.Choices[0].Delta.Content
	}}, nil
}

// decoded is a stream of openai-go or anthropic-sdk-go.
type decoded[T any] struct {
	s interface {
		Next() bool
		Current() T
		Err() error
		Close() error
	}
	text func(T) string
}

func (d decoded[T]) next() (string, bool) {
	if !d.s.Next() {
		return "", false
	}
	return d.text(d.s.Current()), true
}

func (d decoded[T]) err() error   { return d.s.Err() }
func (d decoded[T]) close() error { return d.s.Close() }

type openAIResponses struct{ c openai.Client }

func newOpenAIResponses(url string, client *http.Client) client {
	return openAIResponses{openai.NewClient(openAIOptions(url, client)...)}
}

func (o openAIResponses) params(users []string, limit int) responses.ResponseNewParams {
	var items responses.ResponseInputParam
	for i, text := range users {
		if i > 0 {
			items = append(items, responses.ResponseInputItemParamOfMessage(reply, responses.EasyInputMessageRoleAssistant))
		}
		items = append(items, responses.ResponseInputItemParamOfMessage(text, responses.EasyInputMessageRoleUser))
	}
	return responses.ResponseNewParams{
		Model: "sim", MaxOutputTokens: openai.Int(int64(limit)),
		Input: responses.ResponseNewParamsInputUnion{OfInputItemList: items},
	}
}

func (o openAIResponses) ask(ctx context.Context, session string, users []string, limit int) (string, error) {
	answer, err := o.c.Responses.New(ctx, o.params(users, limit), option.WithHeader("X-Session-Id", session))
	if err != nil {
		return "", err
	}
	return answer.OutputText(), nil
}

func (o openAIResponses) within(ctx context.Context, d time.Duration, limit int) error {
	_, err := o.c.Responses.New(ctx, o.params([]string{"hello"}, limit), option.WithRequestTimeout(d), option.WithMaxRetries(0))
	return err
}

func (o openAIResponses) stream(ctx context.Context, session string, users []string, limit int) (stream, error) {
	s := o.c.Responses.NewStreaming(ctx, o.params(users, limit), option.WithHeader("X-Session-Id", session))
	return decoded[responses.ResponseStreamEventUnion]{s, func(e responses.ResponseStreamEventUnion) string {
		if e.Type != "response.output_text.delta" {
			return ""
		}
		return e.Delta
	}}, nil
}

type anthropicMessages struct{ c anthropic.Client }

func newAnthropic(url string, client *http.Client) client {
	return anthropicMessages{anthropic.NewClient(
		anthropicoption.WithBaseURL(url), anthropicoption.WithAPIKey("key"), anthropicoption.WithHTTPClient(client))}
}

func (a anthropicMessages) params(users []string, limit int) anthropic.MessageNewParams {
	p := anthropic.MessageNewParams{Model: "sim", MaxTokens: int64(limit)}
	for i, text := range users {
		if i > 0 {
			p.Messages = append(p.Messages, anthropic.NewAssistantMessage(anthropic.NewTextBlock(reply)))
		}
		p.Messages = append(p.Messages, anthropic.NewUserMessage(anthropic.NewTextBlock(text)))
	}
	return p
}

func (a anthropicMessages) ask(ctx context.Context, session string, users []string, limit int) (string, error) {
	answer, err := a.c.Messages.New(ctx, a.params(users, limit), anthropicoption.WithHeader("X-Claude-Code-Session-Id", session))
	if err != nil {
		return "", err
	}
	return answer.Content[0].Text, nil
}

func (a anthropicMessages) within(ctx context.Context, d time.Duration, limit int) error {
	_, err := a.c.Messages.New(ctx, a.params([]string{"hello"}, limit), anthropicoption.WithRequestTimeout(d), anthropicoption.WithMaxRetries(0))
	return err
}

func (a anthropicMessages) stream(ctx context.Context, session string, users []string, limit int) (stream, error) {
	s := a.c.Messages.NewStreaming(ctx, a.params(users, limit), anthropicoption.WithHeader("X-Claude-Code-Session-Id", session))
	return decoded[anthropic.MessageStreamEventUnion]{s, func(e anthropic.MessageStreamEventUnion) string {
		return e.Delta.Text
	}}, nil
}

// goOpenAI has no headers by request: the conversation is named by the context.
type goOpenAI struct{ c *goopenai.Client }

func newGoOpenAI(url string, client *http.Client) client {
	cfg := goopenai.DefaultConfig("key")
	cfg.BaseURL, cfg.HTTPClient = url+"/v1", named{client}
	return goOpenAI{goopenai.NewClientWithConfig(cfg)}
}

type nameKey struct{}

// named puts the conversation's name from the context into a header, which is
// needed before a gateway of another process.
type named struct{ client *http.Client }

func (n named) Do(req *http.Request) (*http.Response, error) {
	if name, ok := req.Context().Value(nameKey{}).(string); ok {
		req.Header.Set("X-Session-Id", name)
	}
	return n.client.Do(req)
}

func withName(ctx context.Context, session string) context.Context {
	return warmroute.WithSession(context.WithValue(ctx, nameKey{}, session), session)
}

func (g goOpenAI) request(users []string, limit int) goopenai.ChatCompletionRequest {
	r := goopenai.ChatCompletionRequest{Model: "sim", MaxCompletionTokens: limit}
	for i, text := range users {
		if i > 0 {
			r.Messages = append(r.Messages, goopenai.ChatCompletionMessage{Role: goopenai.ChatMessageRoleAssistant, Content: reply})
		}
		r.Messages = append(r.Messages, goopenai.ChatCompletionMessage{Role: goopenai.ChatMessageRoleUser, Content: text})
	}
	return r
}

func (g goOpenAI) ask(ctx context.Context, session string, users []string, limit int) (string, error) {
	answer, err := g.c.CreateChatCompletion(withName(ctx, session), g.request(users, limit))
	if err != nil {
		return "", err
	}
	return answer.Choices[0].Message.Content, nil
}

func (g goOpenAI) within(ctx context.Context, d time.Duration, limit int) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	_, err := g.c.CreateChatCompletion(ctx, g.request([]string{"hello"}, limit))
	return err
}

func (g goOpenAI) stream(ctx context.Context, session string, users []string, limit int) (stream, error) {
	r := g.request(users, limit)
	r.StreamOptions = &goopenai.StreamOptions{IncludeUsage: true}
	s, err := g.c.CreateChatCompletionStream(withName(ctx, session), r)
	if err != nil {
		return nil, err
	}
	return &goOpenAIStream{s: s}, nil
}

type goOpenAIStream struct {
	s      *goopenai.ChatCompletionStream
	failed error
}

func (g *goOpenAIStream) next() (string, bool) {
	chunk, err := g.s.Recv()
	if err != nil {
		if !errors.Is(err, io.EOF) {
			g.failed = err
		}
		return "", false
	}
	if len(chunk.Choices) == 0 {
		return "", true
	}
	return chunk.Choices[0].Delta.Content, true
}

func (g *goOpenAIStream) err() error   { return g.failed }
func (g *goOpenAIStream) close() error { return g.s.Close() }
