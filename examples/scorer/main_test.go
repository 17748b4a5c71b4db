package main

import (
	"context"
	"os"
)

func Example() {
	if err := run(context.Background(), os.Stdout); err != nil {
		panic(err)
	}
	// Output:
	// h100:8000: 9 conversations
	// a4000:8000: 3 conversations
}
