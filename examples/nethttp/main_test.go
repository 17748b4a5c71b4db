package main

import (
	"context"
	"os"
)

func Example() {
	if err := run(context.Background(), nil, os.Stdout); err != nil {
		panic(err)
	}
	// Output:
	// placed 4, sticky 8
	// simulated:80@0: 1 conversation(s)
	// simulated:80@1: 1 conversation(s)
	// simulated:80@2: 1 conversation(s)
	// simulated:80@3: 1 conversation(s)
}
