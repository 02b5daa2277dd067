package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"cygnet/ike/daemon"
)

// flush removes what an earlier cygnetd left, and says what that was.
func flush(o options, out, errOut io.Writer) int {
	removed, err := daemon.Flush(context.Background(), o.socket, o.tun)
	if o.json {
		answer := struct {
			Removed []string `json:"removed"`
			Error   string   `json:"error,omitempty"`
		}{Removed: append([]string{}, removed...)}
		if err != nil {
			answer.Error = err.Error()
		}
		enc := json.NewEncoder(out)
		enc.SetEscapeHTML(false)
		enc.Encode(answer)
	} else {
		for _, r := range removed {
			fmt.Fprintln(out, "removed:", r)
		}
		if len(removed) == 0 && err == nil {
			fmt.Fprintln(out, "nothing of cygnet's is in this network namespace")
		}
	}
	if err == nil {
		return 0
	}
	if !o.json {
		fmt.Fprintln(errOut, "cygnetd:", err)
	}
	return exitFailed
}
