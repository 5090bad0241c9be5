package runner

// Names of variables, for the test of their documentation.
var (
	PathVariables    = pathVariables
	IgnoredVariables = ignoredVariables
	OwnVariables     = ownVariables
)
