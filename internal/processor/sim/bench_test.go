package sim

import "testing"

func BenchmarkSeed(b *testing.B) {
	s, err := NewSimulator()
	if err != nil {
		b.Fatal(err)
	}
	seed := uint64(0)
	for b.Loop() {
		seed++
		s.Play(seed, Everything(), nil)
	}
}
