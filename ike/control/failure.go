package control

// Codes of this package's own lines and failures. The others come from the daemon: see Line.Code.
const (
	CodeGap               = "gap"                // lines were lost: the client reads too slowly
	CodeDone              = "done"               // the end of a stream
	CodeNoDaemon          = "no-daemon"          // nobody listens on the socket
	CodeDaemonGone        = "daemon-gone"        // the daemon ended while it answered
	CodeDaemonSilent      = "daemon-silent"      // the daemon has the request and does not answer at all
	CodePermission        = "permission"         // the caller may not do this
	CodeTimeout           = "timeout"            // not done in the time given
	CodeInterrupted       = "interrupted"        // the caller stopped waiting
	CodeUsage             = "usage"              // the request makes no sense
	CodeUnknownConnection = "unknown-connection" // no such connection in the configuration
	CodeUnknownChild      = "unknown-child"      // no such child in the connection
	CodeVersion           = "version"            // the two sides speak different versions of the API
	CodeBusy              = "busy"               // too many clients
	CodeInternal          = "internal"
)

// Exit classes of ikectl.
const (
	ExitFailed      = 1
	ExitUsage       = 2
	ExitNoDaemon    = 3
	ExitTimeout     = 4
	ExitInterrupted = 130 // as a shell shows SIGINT
)

// Failure is an error as the tool prints it and as JSON carries it.
type Failure struct {
	Code    string `json:"code"`
	Summary string `json:"summary"`
	Hint    string `json:"hint,omitempty"`
	Exit    int    `json:"-"` // 1 failed, 2 usage, 3 no daemon, 4 timeout
}

func (f *Failure) Error() string { return f.Summary }

// Fail makes a Failure with the exit class of its code.
func Fail(code, summary, hint string) *Failure {
	return &Failure{Code: code, Summary: summary, Hint: hint, Exit: ExitOf(code)}
}

// ExitOf returns the exit class of a code: ExitFailed for all codes that have no class of their own.
func ExitOf(code string) int {
	switch code {
	case CodeUsage:
		return ExitUsage
	case CodeNoDaemon, CodeDaemonGone:
		return ExitNoDaemon
	case CodeTimeout, CodeDaemonSilent:
		return ExitTimeout
	case CodeInterrupted:
		return ExitInterrupted
	}
	return ExitFailed
}
