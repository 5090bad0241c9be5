package runner

// Names of variables, for the test of their documentation.
var (
	PathVariables   = pathVariables
	HiddenVariables = hiddenVariables
	OwnVariables    = ownVariables
)
