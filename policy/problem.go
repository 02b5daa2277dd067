package policy

// Problem is one thing wrong with a configuration.
type Problem struct {
	File    string
	Line    int
	Code    string // stable: "unknown-key", "wrong-type", "overlap", "never-matches", "secret-readable", ...
	Text    string // what was found and what was wanted
	Hint    string // what to change
	Warning bool   // does not refuse the configuration
}
