package daemon

import (
	"github.com/sirupsen/logrus"

	"cygnet/ike"
)

// tell is the one place where what happened goes to the log and to the watchers.
func (d *Daemon) tell(n news) {
	if !d.strangers.pass(n, d.tell) {
		return
	}
	d.hub.publish(n)
	if n.finish != nil {
		return // its reports came before it
	}
	r := n.report
	e := d.log.WithField("code", r.Code)
	if n.spi != 0 {
		e = e.WithField("spi", spiText(n.spi))
	}
	if r.Child != "" {
		e = e.WithField("child", r.Child)
	}
	if r.Hint != "" {
		e = e.WithField("hint", r.Hint)
	}
	level := levelOf(r.Code)
	if r.Detail != "" && (d.log.IsLevelEnabled(logrus.DebugLevel) || level <= logrus.ErrorLevel || explained(r.Code)) {
		e = e.WithField("detail", r.Detail)
	}
	text := r.Text
	if r.Connection != "" {
		text = r.Connection + ": " + text
	}
	e.Log(level, text)
}

// explained: who refuses a proof of identity reads all of it at once, since the peer is told nothing.
func explained(c ike.Code) bool { return c == ike.CodeAuthFailed || c == ike.CodeBadIdentity }

func levelOf(c ike.Code) logrus.Level {
	switch {
	case c == ike.CodeInternal:
		return logrus.ErrorLevel
	case c.Failure():
		return logrus.WarnLevel
	case c.Detail():
		return logrus.DebugLevel
	}
	return logrus.InfoLevel
}
