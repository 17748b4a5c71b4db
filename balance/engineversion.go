package balance

import (
	"regexp"
	"strconv"

	"github.com/warmroute/warmroute/replica"
)

// engineVersion is major, minor and patch of a vLLM version. A pre-release
// counts as the release that it leads to.
type engineVersion [3]int

// versionForm is that of Python versions (PEP 440), as far as vLLM uses it.
const versionForm = `^v?(\d+)\.(\d+)(?:\.(\d+))?(?:\.\d+)*(?:(?:a|b|rc)\d+)?(?:\.post\d+)?(?:\.dev\d+)?(?:\+[A-Za-z0-9.]+)?$`

func parseVersion(s string) (engineVersion, error) {
	refused := &replica.ConfigError{Field: "version", Value: s, Allowed: "a vLLM version such as 0.26.0"}
	form, err := regexp.Compile(versionForm)
	if err != nil {
		return engineVersion{}, err
	}
	parts := form.FindStringSubmatch(s)
	if parts == nil {
		return engineVersion{}, refused
	}
	var v engineVersion
	for i, digits := range parts[1:] {
		if digits == "" {
			continue
		}
		if v[i], err = strconv.Atoi(digits); err != nil {
			return engineVersion{}, refused
		}
	}
	return v, nil
}

func (v engineVersion) before(major, minor, patch int) bool {
	if v[0] != major {
		return v[0] < major
	}
	if v[1] != minor {
		return v[1] < minor
	}
	return v[2] < patch
}
