package projector

import (
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// leftOut counts what a result lacks, by kind.
type leftOut [countersEnd]int64

type counter int

// The kinds, in the order in which a result tells them.
const (
	leftItems    counter = iota // items of lists
	leftStrings                 // strings that were cut
	leftPaths                   // values that no path keeps; what is left out whole counts as one
	leftRows                    // of a table
	leftColumns                 // of a table, each once
	leftCells                   // of a table, values too large to show
	leftLines                   // of a log
	leftPassages                // that were retrieved
	leftContent                 // blocks of an MCP result
	leftBinary                  // images and other bytes, of which only the size is told
	leftBytes                   // of a text
	countersEnd
)

func (c counter) String() string {
	return [countersEnd]string{
		"items", "strings", "paths", "rows", "columns", "cells", "lines", "passages", "content", "binary", "bytes",
	}[c]
}

func (l *leftOut) add(more *leftOut) {
	for c := range more {
		l[c] += more[c]
	}
}

// append writes the member left_out, where there is something to tell.
func (l *leftOut) append(b []byte) []byte {
	if *l == (leftOut{}) {
		return b
	}
	b = append(b, `,"left_out":{`...)
	for c, n := range l {
		if n == 0 {
			continue
		}
		if b[len(b)-1] != '{' {
			b = append(b, ',')
		}
		b = append(b, '"')
		b = append(b, counter(c).String()...)
		b = append(b, `":`...)
		b = strconv.AppendInt(b, n, 10)
	}
	return append(b, '}')
}

// cut gives as much of a text as fits into so many bytes, in whole characters.
func cut(text string, limit int) (string, bool) {
	if len(text) <= limit {
		return text, false
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit], true
}

// appendText writes a string of at most so many bytes, and counts the cut.
func (l *leftOut) appendText(b []byte, text string, limit int) []byte {
	text, short := cut(text, limit)
	if short {
		l[leftStrings]++
	}
	b, _ = jsontext.AppendQuote(b, text) // fails on what is no UTF-8, and all text is
	return b
}
