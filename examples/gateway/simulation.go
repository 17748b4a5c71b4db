package main

import (
	"errors"
	"net"
	"net/http"

	"github.com/warmroute/warmroute/internal/fakevllm"
)

// simulation is a simulated vLLM server of four data-parallel ranks.
type simulation struct {
	url, model string
	engine     *fakevllm.Server
	server     *http.Server
}

func startSimulation() (*simulation, error) {
	const model = "sim"
	engine, err := fakevllm.New(fakevllm.Config{Model: model, Ranks: 4})
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	s := &simulation{
		url: "http://" + listener.Addr().String(), model: model,
		engine: engine, server: &http.Server{Handler: engine},
	}
	go func() {
		// It ends with ErrServerClosed; any other end shows as an engine that
		// cannot be reached.
		_ = s.server.Serve(listener)
	}()
	return s, nil
}

func (s *simulation) close() {
	_ = s.engine.Close() // ends what still runs
	_ = s.server.Close()
}
