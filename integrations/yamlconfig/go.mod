module github.com/warmroute/warmroute/integrations/yamlconfig

go 1.26.0

require (
	github.com/stretchr/testify v1.12.1
	github.com/warmroute/warmroute v0.0.0
	go.yaml.in/yaml/v3 v3.0.5
)

require (
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/pandatix/go-abnf v0.5.5 // indirect
	github.com/prometheus/client_model v0.6.3 // indirect
	github.com/prometheus/common v0.74.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

replace github.com/warmroute/warmroute => ../..
