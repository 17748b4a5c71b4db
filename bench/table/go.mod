module github.com/warmroute/warmroute/bench/table

go 1.26.0

replace github.com/warmroute/warmroute => ../..

require (
	github.com/hashicorp/golang-lru/v2 v2.0.7
	github.com/jellydator/ttlcache/v3 v3.4.1
	github.com/maypok86/otter/v2 v2.4.0
	github.com/puzpuzpuz/xsync/v4 v4.5.0
	github.com/stretchr/testify v1.12.1
	github.com/warmroute/warmroute v0.0.0-00010101000000-000000000000
)

require (
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sync v0.16.0 // indirect
)
