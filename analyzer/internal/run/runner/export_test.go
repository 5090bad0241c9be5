package runner

// Names of variables, for the test of their documentation.
var (
	HiddenVariables = hiddenVariables
	OwnVariables    = runnerVariables
)
