package main

import (
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/config"
	"github.com/warmroute/warmroute/discovery"
)

// configFile is a configuration file as it was read last.
type configFile struct {
	path     string
	config   *config.Config
	settings *config.Settings
}

// readConfig reads a configuration file and the secrets that it names.
func readConfig(path string) (configFile, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return configFile{}, err
	}
	c, err := config.Parse(path, text)
	if err != nil {
		return configFile{}, err
	}
	settings, err := c.Build(config.Sources{ReadFile: os.ReadFile, LookupEnv: os.LookupEnv})
	if err != nil {
		return configFile{}, err
	}
	return configFile{path, c, settings}, nil
}

// discoverer finds the endpoints of the file, and those of its discovery.
func (f configFile) discoverer() discovery.Discoverer {
	if f.settings.Discoverer != nil {
		return f.settings.Discoverer
	}
	return discovery.Static(f.settings.Targets...)
}

// useFile has the file at path say what flags say otherwise. Of the other flags only
// -listen goes with it, and goes first.
func (cfg *settings) useFile(path string, given map[string]bool) error {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains([]string{"config", "check-config", "listen"}, name) {
			return fmt.Errorf("-%s does not go with -config: put it into the file", name)
		}
	}
	file, err := readConfig(path)
	if err != nil {
		return err
	}
	cfg.file, cfg.source = &file, newSource(file.discoverer())
	cfg.endpoints, cfg.sessions = file.settings.Endpoints(), file.settings.SessionsFile
	if file.settings.Listen != "" && !given["listen"] {
		cfg.listen = file.settings.Listen
	}
	cfg.options = append(file.settings.RouterOptions(), warmroute.WithDiscovery(cfg.source))
	return nil
}
