package main

import (
	"io"
	"os"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/term"
)

// isTerminal reports whether a person reads what is written.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// newLogger writes as the configuration says; in colours to terminals only.
func newLogger(c config, w io.Writer) zerolog.Logger {
	level, _ := zerolog.ParseLevel(c.Log.Level) // validated
	if c.Log.Format == "text" {
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: time.TimeOnly, NoColor: !isTerminal(w) || os.Getenv("NO_COLOR") != ""}
	}
	return zerolog.New(w).Level(level).With().Timestamp().Str("process", c.Process).Logger()
}
