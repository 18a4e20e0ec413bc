package stream

// Fence tells what the expectation demands of a message on subject: that the
// last message under the filter have the sequence. It is for those who stand in
// for a stream.
func (e Expect) Fence(subject string) (filter string, sequence uint64, fenced bool) {
	if e.filter == "" {
		return subject, e.sequence, e.fenced
	}
	return e.filter, e.sequence, e.fenced
}
