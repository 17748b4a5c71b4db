package config

// Kind is what a [Node] is.
type Kind string

// The kinds of nodes.
const (
	Null   Kind = "null"
	Bool   Kind = "a boolean"
	Number Kind = "a number"
	String Kind = "a string"
	List   Kind = "a list"
	Map    Kind = "an object"
)

// Node is a value of a configuration text and where it stands. Lines and columns
// count from 1; columns are in bytes.
type Node struct {
	Kind         Kind
	Line, Column int
	// Text is the string, the number as it is written, or true or false.
	Text   string
	List   []*Node
	Fields []Field
}

// Field is a named value of a [Node] that is a Map. The names of one node differ.
type Field struct {
	Name         string
	Line, Column int // of the name
	Value        *Node
}

// Field returns the value of that name, nil if there is none.
func (n *Node) Field(name string) *Node {
	for i := range n.Fields {
		if n.Fields[i].Name == name {
			return n.Fields[i].Value
		}
	}
	return nil
}

// find is the node at a path, or the nearest above it that there is. Items of a
// list are found by their index.
func (n *Node) find(path []any) *Node {
	for _, step := range path {
		var next *Node
		switch step := step.(type) {
		case string:
			next = n.Field(step)
		case int:
			if step < len(n.List) {
				next = n.List[step]
			}
		}
		if next == nil {
			return n
		}
		n = next
	}
	return n
}
