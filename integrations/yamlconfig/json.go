package yamlconfig

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/warmroute/warmroute/config"
)

// JSON returns a configuration in YAML as JSON, for a program that reads that, after
// it has been checked.
func JSON(file string, text []byte) ([]byte, error) {
	root, err := Read(file, text)
	if err != nil {
		return nil, err
	}
	if _, err := config.FromNode(file, root); err != nil {
		return nil, err
	}
	var compact, out bytes.Buffer
	if err := write(&compact, root); err != nil {
		return nil, err
	}
	if err := json.Indent(&out, compact.Bytes(), "", "  "); err != nil {
		return nil, fmt.Errorf("yamlconfig: %w", err)
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// write keeps the order of the fields.
func write(b *bytes.Buffer, n *config.Node) error {
	text := func(s string) error {
		quoted, err := json.Marshal(s)
		b.Write(quoted)
		return err
	}
	switch n.Kind {
	case config.String:
		return text(n.Text)
	case config.List:
		b.WriteByte('[')
		for i, item := range n.List {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := write(b, item); err != nil {
				return err
			}
		}
		b.WriteByte(']')
	case config.Map:
		b.WriteByte('{')
		for i, f := range n.Fields {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := text(f.Name); err != nil {
				return err
			}
			b.WriteByte(':')
			if err := write(b, f.Value); err != nil {
				return err
			}
		}
		b.WriteByte('}')
	default:
		b.WriteString(n.Text)
	}
	return nil
}
