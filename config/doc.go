// Package config reads the configuration file of a gateway: the endpoints and how
// to find them, the pools, and every other setting of a [warmroute.Router], so that
// a mistake is told with its line, column and field, and a changed file can be
// applied to a router in use.
//
// The text is JSON with // and /* */ comments ([Parse]); other notations become a
// [Node] first, as YAML does in the module integrations/yamlconfig. Nothing in it is
// a secret: API keys are named by the file or environment variable that holds them.
//
// [Parse] checks everything that can be checked without reading anything else,
// [Config.Build] makes the settings of a router, and [Config.Fixed] says which
// fields a new configuration may not change without a restart.
package config
