package processor

import "strings"

// printable makes a text fit for a header: printable ASCII, at most max bytes.
// What it replaces it shows as a question mark.
func printable(s string, max int) string {
	if len(s) > max {
		s = s[:max]
	}
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r > 0x7e {
			return '?'
		}
		return r
	}, s)
}

// isServerHeader reports whether a header means something to the server or to
// its clients (a status); such a header of a stranger's message must not be
// published under our name.
func isServerHeader(key string) bool {
	return len(key) >= 5 && strings.EqualFold(key[:5], "Nats-") ||
		strings.EqualFold(key, "Status") || strings.EqualFold(key, "Description")
}
