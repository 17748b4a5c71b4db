module github.com/warmroute/warmroute/integrations/echo

go 1.26.0

replace github.com/warmroute/warmroute => ../..

require (
	github.com/labstack/echo/v5 v5.4.5
	github.com/warmroute/warmroute v0.0.0-00010101000000-000000000000
)

require (
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/pandatix/go-abnf v0.5.5 // indirect
	github.com/prometheus/client_model v0.6.3 // indirect
	github.com/prometheus/common v0.74.0 // indirect
	github.com/stretchr/testify v1.12.1 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/time v0.15.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)
