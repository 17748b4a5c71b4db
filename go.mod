module github.com/warmroute/warmroute

go 1.26.0

// expfmt reads the engines' metrics pages; testify is used by tests only.
// Nothing else: integrations with dependencies of their own are modules of
// their own.
require (
	github.com/prometheus/common v0.74.0
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/pandatix/go-abnf v0.5.5 // indirect
	github.com/prometheus/client_model v0.6.3 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)
