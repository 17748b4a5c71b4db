package usage

// doneMark begins the data of the event that ends a chat or completions
// stream.
const doneMark = "[DONE]"

// event is what is known of the event being read.
type event struct {
	data     bool // it has a data field
	done     int8 // bytes of doneMark its data begins with, -1 if it does not
	response bool // its data has a response object
	named    end  // by its event field
	typed    end  // by the type in its data
}

// end says whether an event ends the stream.
type end uint8

const (
	endNone     end = iota
	endMessage      // message_stop
	endResponse     // response.completed, response.incomplete
	endFailed       // response.failed
)

func endOf(name string) end {
	switch name {
	case "message_stop":
		return endMessage
	case "response.completed", "response.incomplete":
		return endResponse
	case "response.failed":
		return endFailed
	}
	return endNone
}

// nameEvent takes the value of an event field.
func (r *Reader) nameEvent(name string) {
	r.event.named = endOf(name)
	if name == "error" {
		r.failed = true
	}
}

// beginData takes the beginning of a data field.
func (r *Reader) beginData() {
	if r.event.data {
		r.event.done = -1
		r.object([]byte{'\n'}) // the fields of an event are one text of lines
	}
	r.event.data = true
}

// data reads the next piece of the data of an event.
func (r *Reader) data(p []byte) {
	r.object(p)
	for _, c := range p {
		if r.event.done < 0 {
			return
		}
		if c != doneMark[r.event.done] {
			r.event.done = -1
			return
		}
		if r.event.done++; int(r.event.done) == len(doneMark) {
			r.event.done = -1
			r.finished = true
		}
	}
}

// endData takes the end of the JSON object that is the data of an event. Its
// type is enough where there is no event field, but of a response event only
// with its response.
func (r *Reader) endData() {
	r.settle(r.event.named)
	if r.event.typed == endMessage || r.event.response {
		r.settle(r.event.typed)
	}
}

// endEvent takes the blank line after an event.
func (r *Reader) endEvent() {
	r.settle(r.event.named)
	if r.event.data {
		r.restart()
	}
	r.event = event{}
}

func (r *Reader) settle(e end) {
	r.finished = r.finished || e != endNone
	r.failed = r.failed || e == endFailed
}
