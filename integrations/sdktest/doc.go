// Package sdktest has the SDKs that Go programs call LLMs with talk to simulated
// engines through warmroute: openai-go, anthropic-sdk-go and go-openai, streamed
// and not, over sockets, with the router's transport in the SDK's own
// http.Client and behind a gateway. It holds tests only.
package sdktest
