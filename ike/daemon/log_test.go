package daemon

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"cygnet/ike"
)

// TestRefusalIsExplained: what a certificate proves, what the peer claims and what is wanted stands in the log of whoever refuses it at the default level too.
func TestRefusalIsExplained(t *testing.T) {
	for code, want := range map[ike.Code]bool{ike.CodeAuthFailed: true, ike.CodeBadIdentity: true, ike.CodeNoProposal: false, ike.CodeInternal: true} {
		var b bytes.Buffer
		log := logrus.New()
		log.SetOutput(&b)
		d := &Daemon{log: log, hub: &hub{}}
		d.tell(news{report: ike.Report{Code: code, Text: "refused", Detail: "the peer claims: gw-a.example"}})
		if got := strings.Contains(b.String(), "the peer claims"); got != want || !strings.Contains(b.String(), "refused") {
			t.Errorf("%s: %q", code, b.String())
		}
	}
}
