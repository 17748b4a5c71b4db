// Yaml2json checks a gateway's configuration in YAML and writes it as the JSON that
// the gateway reads:
//
//	yaml2json gateway.yaml > gateway.json
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/warmroute/warmroute/integrations/yamlconfig"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "yaml2json:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: yaml2json FILE")
	}
	text, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	converted, err := yamlconfig.JSON(args[0], text)
	if err != nil {
		return err
	}
	_, err = out.Write(converted)
	return err
}
