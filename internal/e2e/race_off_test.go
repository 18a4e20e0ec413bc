//go:build !race

package e2e

// buildArgs builds the processor with the race detector where the tests have it.
func buildArgs() []string { return []string{"build", "-buildvcs=false"} }
