package demo

import (
	"io"
	"os"
	"strings"
	"unicode"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/colorprofile"
)

// palette is how things look on a terminal.
type palette struct {
	plain, title, faint, good, bad, warn lipgloss.Style
}

func newPalette() palette {
	colour := func(code string) lipgloss.Style { return lipgloss.NewStyle().Foreground(lipgloss.Color(code)) }
	return palette{
		plain: lipgloss.NewStyle(), title: lipgloss.NewStyle().Bold(true), faint: lipgloss.NewStyle().Faint(true),
		good: colour("2"), bad: colour("1"), warn: colour("3"),
	}
}

// writeText writes styled text: with the colours that w can show, and plain
// where w is no terminal or NO_COLOR is set, to whatever.
func writeText(w io.Writer, text string) error {
	out := colorprofile.Writer{Forward: w, Profile: colorprofile.Detect(w, os.Environ())}
	if os.Getenv("NO_COLOR") != "" {
		out.Profile = colorprofile.NoTTY
	}
	_, err := out.WriteString(text)
	return err
}

// cell is one field of a line.
type cell struct {
	text  string
	style lipgloss.Style
	right bool // aligned to the right
}

// aligned gives the rows as lines whose columns stand below each other. The last
// cell of a row is not padded.
func aligned(indent string, rows [][]cell) string {
	var widths []int
	for _, row := range rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			if i < len(row)-1 || c.right {
				widths[i] = max(widths[i], lipgloss.Width(c.text))
			}
		}
	}
	var out strings.Builder
	for _, row := range rows {
		out.WriteString(indent)
		for i, c := range row {
			padding := strings.Repeat(" ", max(0, widths[i]-lipgloss.Width(c.text)))
			if c.right {
				out.WriteString(padding)
			}
			if c.text != "" {
				out.WriteString(c.style.Render(c.text))
			}
			if i < len(row)-1 {
				if !c.right {
					out.WriteString(padding)
				}
				out.WriteString("  ")
			}
		}
		out.WriteString("\n")
	}
	return out.String()
}

// mostShown is how many characters of an id or another text of an agent's are
// shown.
const mostShown = 32

// shorten keeps beginning and end of a text that is longer than what is shown.
func shorten(text string) string {
	runes := []rune(printable(text))
	if len(runes) <= mostShown {
		return string(runes)
	}
	const keep = (mostShown - 1) / 2
	return string(runes[:keep]) + "…" + string(runes[len(runes)-keep:])
}

// printable takes out what a terminal would obey: agents choose some of the
// texts that are shown.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}
