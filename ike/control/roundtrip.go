package control

import (
	"bufio"
	"cmp"
	"context"
	"io"
	"net"
	"net/http"
	"time"
)

// roundTrip sends one request on a connection of its own and reads the head of the answer, which may have come before the request was
// written: a client past the limit is told so at once. (http.Transport takes an answer that it does not yet wait for as a broken connection.)
// The body of the answer ends with ctx, and closing it closes the connection.
func (c *Client) roundTrip(ctx context.Context, req *http.Request) (*http.Response, error) {
	d := net.Dialer{Timeout: dialTimeout}
	conn, err := d.DialContext(ctx, "unix", c.path())
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	resp, err := c.exchange(conn, req)
	if err != nil {
		stop()
		conn.Close()
		return nil, err
	}
	resp.Body = &answerBody{resp.Body, conn, stop}
	return resp, nil
}

func (c *Client) exchange(conn net.Conn, req *http.Request) (*http.Response, error) {
	conn.SetDeadline(time.Now().Add(cmp.Or(c.silence, silenceLimit)))
	req.Close = true
	unsent := req.Write(conn) // the daemon may have answered and gone: its words are worth more than this error
	resp, err := http.ReadResponse(bufio.NewReader(conn), req)
	if err != nil {
		return nil, cmp.Or(unsent, err)
	}
	conn.SetDeadline(time.Time{})
	return resp, nil
}

// answerBody closes the connection with the body.
type answerBody struct {
	io.ReadCloser
	conn net.Conn
	stop func() bool
}

// Close does not read the rest, as the body of package http would: a stream has no end.
func (b *answerBody) Close() error {
	b.stop()
	return b.conn.Close()
}
