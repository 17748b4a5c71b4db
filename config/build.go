package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/discovery"
)

// Sources is where secrets are read: os.ReadFile and os.LookupEnv in a program. A
// nil function knows nothing.
type Sources struct {
	ReadFile  func(name string) ([]byte, error)
	LookupEnv func(name string) (string, bool)
}

// Settings is a configuration in the form that a router takes.
type Settings struct {
	Listen       string
	SessionsFile string
	// Targets are the configured endpoints. Discoverer finds these and those of the
	// discovery; it is nil if there is none.
	Targets    []warmroute.Target
	Discoverer warmroute.Discoverer
	// Options are all but the pools', which are apart so that they can be given to
	// [warmroute.Router.SetPools] as well.
	Options []warmroute.Option
	All     []warmroute.PoolOption
	ByModel map[string][]warmroute.PoolOption
}

// RouterOptions are those for [warmroute.New]: Options, All and ByModel.
func (s *Settings) RouterOptions() []warmroute.Option {
	out := append([]warmroute.Option(nil), s.Options...)
	for _, o := range s.All {
		out = append(out, o)
	}
	for model, options := range s.ByModel {
		out = append(out, warmroute.WithPool(model, options...))
	}
	return out
}

// Endpoints are the targets' endpoints, for [warmroute.New].
func (s *Settings) Endpoints() []warmroute.Endpoint {
	out := make([]warmroute.Endpoint, len(s.Targets))
	for i, t := range s.Targets {
		out[i] = t.Endpoint
	}
	return out
}

// Build makes settings, and reads the secrets for it. The error joins an [*Error]
// for each that cannot be had; none shows a secret.
func (c *Config) Build(from Sources) (*Settings, error) {
	m := &mistakes{file: c.file}
	secret := func(s Secret, path ...any) string {
		key, err := s.read(from, c.path)
		if err == nil {
			err = checkKey(key)
		}
		if err != nil {
			m.add(c.root.find(path), path, err)
		}
		return key
	}
	s := &Settings{Listen: c.Listen, SessionsFile: c.path(c.Sessions.File), ByModel: map[string][]warmroute.PoolOption{}}
	for i, e := range c.Endpoints {
		key := secret(e.APIKey, "endpoints", i, "api_key")
		s.Targets = append(s.Targets, warmroute.Target{Endpoint: e.endpoint(key), Draining: e.Draining})
	}
	if len(c.Discovery) > 0 {
		all := []discovery.Discoverer{discovery.Static(s.Targets...)}
		for i, d := range c.Discovery {
			kind, _ := d.kind()
			path := []any{"discovery", i, kind, "endpoint", "api_key"}
			if d.File != nil {
				path = []any{"discovery", i, kind, "api_key"}
			}
			one, err := d.build(secret(d.secret(), path...), c.path)
			if err != nil && len(m.all) == 0 {
				m.add(c.root.find(path[:3]), path[:3], err)
			}
			all = append(all, one)
		}
		s.Discoverer = discovery.Join(all...)
	}
	for _, o := range c.options() {
		s.Options = append(s.Options, o.option)
	}
	for _, o := range c.Defaults.options("defaults") {
		s.All = append(s.All, o.option)
	}
	for model, pool := range c.Pools {
		s.ByModel[model] = nil
		for _, o := range pool.options("pools", model) {
			s.ByModel[model] = append(s.ByModel[model], o.option)
		}
	}
	if err := m.err(); err != nil {
		return nil, err
	}
	return s, nil
}

// read returns the secret, empty if there is none.
func (s Secret) read(from Sources, path func(string) string) (string, error) {
	var text string
	switch {
	case s.File != "":
		if from.ReadFile == nil {
			return "", fmt.Errorf("file %s: no files here", s.File)
		}
		content, err := from.ReadFile(path(s.File))
		if err != nil {
			return "", err
		}
		if text = strings.TrimSpace(string(content)); text == "" {
			return "", fmt.Errorf("file %s is empty", s.File)
		}
	case s.Env != "":
		if from.LookupEnv != nil {
			text, _ = from.LookupEnv(s.Env)
		}
		if text == "" {
			return "", fmt.Errorf("environment variable %s is not set", s.Env)
		}
	}
	return text, nil
}

// checkKey refuses what no header may carry, without showing it.
func checkKey(key string) error {
	if _, err := (warmroute.Endpoint{URL: "http://any", APIKey: key}).Name(); err != nil {
		return errors.New("the API key has other characters than visible ASCII ones")
	}
	return nil
}
