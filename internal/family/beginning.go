package family

// beginning is where in a body the parts of a prompt's beginning are. They may
// come in any order.
type beginning struct {
	tools    []byte
	salt     []byte // as it is written
	system   texts
	messages texts
	prompt   texts
	cut      bool // the body ended before it did
}

// texts are some texts as they are escaped, without their quotes.
type texts struct {
	list [maxTexts][]byte
	n    int
	cut  bool // there are more, or the last one is not whole
}

func (t *texts) add(text []byte, whole bool) {
	switch text = withoutBilling(text); {
	case len(text) == 0:
	case t.n == maxTexts:
		t.cut = true
	default:
		t.list[t.n] = text
		t.n++
	}
	t.cut = t.cut || !whole
}

// read looks a body through.
func (b *beginning) read(body []byte) {
	c := cursor{b: body}
	if c.open() != '{' {
		return
	}
	for first := true; ; first = false {
		key, ok := c.member(first)
		if !ok {
			break
		}
		switch string(key) {
		case "tools":
			b.tools = c.value()
			if len(b.tools) == 0 || b.tools[0] != '[' || len(b.tools) <= 2 {
				b.tools = nil // null, or none
			}
			if c.cut {
				b.system, b.messages, b.prompt = texts{}, texts{}, texts{} // they come after what is missing
			}
		case "system", "instructions":
			b.system = texts{}
			b.system.content(&c)
		case "messages", "input":
			b.messages = texts{}
			b.messages.leading(&c)
		case "cache_salt":
			if b.salt = c.value(); string(b.salt) == "null" {
				b.salt = nil
			}
		case "prompt":
			b.prompt = texts{}
			b.prompt.first(&c)
		default:
			c.value()
		}
	}
	b.cut = c.cut
}

// content adds the texts of a content: a string, or parts with texts.
func (t *texts) content(c *cursor) {
	switch c.next() {
	case '"':
		t.add(c.str())
	case '[':
		c.open()
		for first := true; c.element(first); first = false {
			t.part(c)
		}
	default:
		c.value()
	}
}

// part adds the text of one part of a content. Others than texts, such as images,
// are not looked at.
func (t *texts) part(c *cursor) {
	switch c.next() {
	case '"':
		t.add(c.str())
	case '{':
		c.open()
		for first := true; ; first = false {
			key, ok := c.member(first)
			if !ok {
				return
			}
			if string(key) == "text" && c.next() == '"' {
				t.add(c.str())
			} else {
				c.value()
			}
		}
	default:
		c.value()
	}
}

// leading adds the texts of the messages that come before those of the user and
// the model.
func (t *texts) leading(c *cursor) {
	if c.next() != '[' {
		c.value() // an input that is the user's text
		return
	}
	end := *c
	c.open()
	for first := true; c.element(first); first = false {
		if c.next() != '{' {
			break
		}
		at := *c
		if !c.systemMessage() {
			break
		}
		after := *c
		*c = at
		t.message(c)
		*c = after
	}
	// What follows is no part of it.
	end.value()
	*c = end
}

// systemMessage reads a message to its end and reports whether its role is that
// of a system prompt.
func (c *cursor) systemMessage() (system bool) {
	c.open()
	for first := true; ; first = false {
		key, ok := c.member(first)
		if !ok {
			return system
		}
		v := c.value()
		if string(key) == "role" {
			system = string(v) == `"system"` || string(v) == `"developer"`
		}
	}
}

// message adds the texts of a message's content.
func (t *texts) message(c *cursor) {
	c.open()
	for first := true; ; first = false {
		key, ok := c.member(first)
		if !ok {
			return
		}
		if string(key) == "content" {
			t.content(c)
		} else {
			c.value()
		}
	}
}

// first adds a prompt, or the first of several.
func (t *texts) first(c *cursor) {
	at := *c
	if c.next() == '[' {
		c.open()
		if c.element(true) && c.next() == '"' {
			t.add(c.str())
		}
		*c = at
	} else if c.next() == '"' {
		t.add(c.str())
		return
	}
	c.value()
}
