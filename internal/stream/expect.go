package stream

import "strings"

// Fence tells what the expectation demands of a message on subject: that the
// last message under the filter have the sequence. It is for those who stand in
// for a stream.
func (e Expect) Fence(subject string) (filter string, sequence uint64, fenced bool) {
	if e.filter == "" {
		return subject, e.sequence, e.fenced
	}
	return e.filter, e.sequence, e.fenced
}

// Matches reports whether a subject is under a filter with * and a final >. It
// is for those who stand in for a stream.
func Matches(filter, subject string) bool {
	for {
		want, filterRest, moreFilter := strings.Cut(filter, ".")
		have, subjectRest, moreSubject := strings.Cut(subject, ".")
		switch {
		case want == ">":
			return true
		case want != "*" && want != have:
			return false
		case !moreFilter || !moreSubject:
			return moreFilter == moreSubject
		}
		filter, subject = filterRest, subjectRest
	}
}
