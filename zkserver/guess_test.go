package zkserver

import (
	"fmt"
	"testing"
	"time"

	"holdfast/zkproto"
	"holdfast/zkserver/internal/login"
)

// A guesser of passwords has to wait longer and longer, by SASL as by digest, whether a digest is required or is that of the
// superuser. A client that comes too early gets no answer, which would be final, but may connect again. A client that was
// right before goes on.
func TestGuessesHaveToWait(t *testing.T) {
	digest := Config{SuperDigest: login.Digest("root:secret").ID}
	required := Config{Users: testUsers, RequireAuth: []string{"digest"}}
	for name, tt := range map[string]struct {
		cfg         Config
		user, right string
		sasl        bool
		wrong       zkproto.Code
	}{
		"sasl":      {Config{Users: testUsers}, "bob", planted, true, zkproto.CodeAuthFailed},
		"digest":    {required, "bob", planted, false, zkproto.CodeAuthFailed},
		"superuser": {digest, "root", "secret", false, zkproto.CodeOK},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, tt.cfg, func(t *testing.T, s *Server, dial func() *rawClient) {
				// try returns the answer, or noAnswer if there is none.
				try := func(user, password string) zkproto.Code {
					c := dial()
					defer c.nc.Close()
					c.connect(10*time.Second, nil)
					if tt.sasl {
						d := newDigest(user, password, c.challenge())
						c.send(zkproto.OpSASL, &zkproto.SASLToken{Token: []byte(d.response())})
					} else {
						c.send(zkproto.OpAuth, &zkproto.AuthRequest{Scheme: "digest", Auth: []byte(user + ":" + password)})
					}
					frame, err := zkproto.ReadFrame(c.in, nil, 1<<20)
					if err != nil {
						return noAnswer
					}
					var h zkproto.ReplyHeader
					h.Decode(zkproto.NewReader(frame))
					return h.Err
				}
				guesses := func(user string) (n int) {
					for i := range 20 {
						if try(user, fmt.Sprint("guess", i)) == tt.wrong {
							n++
						}
					}
					return n
				}
				other := "eve"
				if name == "superuser" {
					other = "root"
				} else if code := try(tt.user, tt.right); code != zkproto.CodeOK {
					t.Fatal(code)
				}
				if n := guesses(other); n != 5 {
					t.Errorf("%d guesses at once; want 5", n)
				}
				if name != "superuser" {
					if code := try(tt.user, tt.right); code != zkproto.CodeOK {
						t.Errorf("the client that was right before: %v", code)
					}
				}
				if s.Stats().Refused[LimitGuesses] == 0 {
					t.Error("the refusals are not counted")
				}
				time.Sleep(time.Second)
				if n := guesses(other); n != 1 {
					t.Errorf("%d guesses after a second; want 1", n)
				}
				time.Sleep(time.Second)
				if n := guesses(other); n != 0 {
					t.Errorf("%d guesses after a second more; want none", n)
				}
				time.Sleep(time.Hour)
				if code := try(tt.user, tt.right); code != zkproto.CodeOK {
					t.Errorf("after a rest: %v", code)
				}
			})
		})
	}
}

// noAnswer is no code of the protocol.
const noAnswer zkproto.Code = 12345
