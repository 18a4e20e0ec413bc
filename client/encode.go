package client

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// object writes a JSON object member by member, so that raw values go out byte
// for byte; an encoder would be free to write them anew.
type object []byte

func (o *object) name(name string) {
	if len(*o) == 0 {
		*o = append(*o, '{')
	} else {
		*o = append(*o, ',')
	}
	*o = append(*o, '"')
	*o = append(*o, name...)
	*o = append(*o, '"', ':')
}

// text adds a string, which must be valid UTF-8.
func (o *object) text(name, value string) {
	o.name(name)
	*o, _ = jsontext.AppendQuote(*o, value) // fails on invalid UTF-8 only
}

func (o *object) number(name string, value int64) {
	o.name(name)
	*o = strconv.AppendInt(*o, value, 10)
}

// raw adds a value that is JSON already.
func (o *object) raw(name string, value []byte) {
	o.name(name)
	*o = append(*o, value...)
}

func (o *object) bytes() []byte { return append(*o, '}') }
