package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// ErrNoRows is what ReadJSON's error wraps when the JSON has no "rows", and so
// is not a Table.
var ErrNoRows = errors.New("no rows")

// WriteJSON writes the table as indented JSON that ends in a newline. A
// missing value is null; bytes of a name that are no UTF-8 become U+FFFD.
//
// The error is the writer's.
func (t *Table) WriteJSON(w io.Writer) error {
	whole := *t
	if whole.Seeds == nil {
		whole.Seeds = []uint64{}
	}
	if whole.Rows == nil {
		whole.Rows = []Row{}
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(whole)
}

// ReadJSON reads a table that [Table.WriteJSON] has written. A figure that is
// not there is missing, not 0; names it does not know are ignored, so that
// tables of later versions can be read.
//
// It reads r to its end. The error wraps the reader's or encoding/json's, or
// [ErrNoRows].
func ReadJSON(r io.Reader) (*Table, error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read a table: %w", err)
	}
	t := new(Table)
	if err := json.Unmarshal(b, t); err != nil {
		return nil, fmt.Errorf("read a table: %w", err)
	}
	if t.Rows == nil {
		return nil, fmt.Errorf("read a table: %w", ErrNoRows)
	}
	return t, nil
}
