package ike

// Code is a stable word for a kind of report. Programs may rely on it; the text beside it is for people.
type Code string

const (
	CodeSent          Code = "sent"          // progress: a first message of an exchange left
	CodeChosen        Code = "chosen"        // progress: the peer chose a suite; NAT or not
	CodeAuthenticated Code = "authenticated" // progress: the peer proved its identity
	CodeEstablished   Code = "ike-up"        // the IKE SA is up; detail
	CodeChildUp       Code = "child-up"
	CodeChildDown     Code = "child-down" // a child that was up is gone
	CodeRekeyed       Code = "child-rekeyed"
	CodeIKERekeyed    Code = "ike-rekeyed"
	CodeReauth        Code = "reauth"      // a new IKE SA is asked for beside this one
	CodeMoved         Code = "moved"       // the path to the peer changes, or changed (RFC 4555)
	CodeClosed        Code = "closed"      // as asked, or by the peer's Delete
	CodeTurnedAway    Code = "turned-away" // the peer, which proved who it is, asks for what the operator took down
	CodeNoAnswer      Code = "no-answer"   // peer silent
	CodeNotSent       Code = "not-sent"    // this host cannot send to the peer
	CodeNoProposal    Code = "no-proposal"
	CodeAuthFailed    Code = "auth-failed" // the peer refused us, or we the peer: Text says which
	CodeBadIdentity   Code = "identity-mismatch"
	CodeNoSelectors   Code = "selectors-mismatch"
	CodeDataplane     Code = "dataplane"  // the data plane refused
	CodePeerError     Code = "peer-error" // another error notify
	CodeProtocol      Code = "protocol"   // the peer broke the protocol
	CodeExpired       Code = "expired"    // a child or the IKE SA could not be replaced before its hard limit
	CodeResolve       Code = "resolve"
	CodePhase         Code = "phase"   // a transition of the machine, in the words of rules.go; detail
	CodeIgnored       Code = "ignored" // something was dropped; detail
	CodeInternal      Code = "internal"
)

// Failure reports whether the code says that something failed. A Report with such a code and a Child ends our attempt at that child. Whether the
// attempt at the connection ended is said by Finish alone: a Report without a Child may also tell that a peer asked for what we refuse.
func (c Code) Failure() bool {
	switch c {
	case CodeNoAnswer, CodeNotSent, CodeNoProposal, CodeAuthFailed, CodeBadIdentity, CodeNoSelectors, CodeDataplane, CodePeerError,
		CodeExpired, CodeProtocol, CodeResolve, CodeInternal:
		return true
	}
	return false
}

// Detail reports whether reports of this code are for -v only.
func (c Code) Detail() bool { return c == CodeEstablished || c == CodePhase || c == CodeIgnored }
