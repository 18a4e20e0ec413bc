//go:build race

package testenv

// processorBuildArgs builds the processor with the race detector where the tests have it.
func processorBuildArgs() []string { return []string{"build", "-race", "-buildvcs=false"} }
