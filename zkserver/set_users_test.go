package zkserver

import (
	"maps"
	"testing"
	"time"

	"holdfast/zkproto"
	"holdfast/zkserver/internal/login"
)

func TestSetUsersClosesTheConnectionsOfChangedUsersOnly(t *testing.T) {
	const long = 40 * time.Second
	without := func(change func(users map[string]string)) map[string]string {
		users := maps.Clone(testUsers)
		change(users)
		return users
	}
	super := login.Digest("super:test").ID
	for name, tt := range map[string]struct {
		cfg    Config
		closed map[string]bool // connections closed, by the name of the client below
	}{
		"nothing changes":      {Config{Users: testUsers, SuperDigest: super}, nil},
		"a user goes":          {Config{Users: without(func(u map[string]string) { delete(u, "bob") }), SuperDigest: super}, map[string]bool{"bob": true, "bob by digest": true}},
		"another password":     {Config{Users: without(func(u map[string]string) { u["bob"] = "new" }), SuperDigest: super}, map[string]bool{"bob": true, "bob by digest": true}},
		"the superuser goes":   {Config{Users: testUsers}, map[string]bool{"super": true}},
		"another superuser":    {Config{Users: testUsers, SuperDigest: login.Digest("super:new").ID}, map[string]bool{"super": true}},
		"everything goes":      {Config{}, map[string]bool{"bob": true, "bob by digest": true, "eve": true, "super": true}},
		"a user comes besides": {Config{Users: without(func(u map[string]string) { u["new"] = "new" }), SuperDigest: super}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			before := Config{Users: testUsers, SuperDigest: super, RequireAuth: []string{"digest", "sasl"}}
			inBubble(t, before, func(t *testing.T, s *Server, dial func() *rawClient) {
				clients := make(map[string]*rawClient)
				for _, who := range []string{"bob", "bob by digest", "eve", "super"} {
					c := dial()
					c.connect(long, nil)
					switch who {
					case "bob by digest":
						c.auth("digest", "bob:"+planted)
					case "super":
						c.auth("digest", "super:test")
					default:
						c.authSASL(who, testUsers[who])
					}
					clients[who] = c
				}
				if err := s.SetUsers(t.Context(), tt.cfg); err != nil {
					t.Fatal(err)
				}
				for who, c := range clients {
					if tt.closed[who] {
						c.closed()
					} else if _, code := c.exists("/", false); code != zkproto.CodeOK {
						t.Errorf("%s: %v", who, code)
					}
				}
				if n := s.Stats().Sessions; n != len(clients) {
					t.Errorf("%d sessions are alive", n)
				}
			})
		})
	}
}

func TestSetUsersDemandsWhatIsNew(t *testing.T) {
	inBubble(t, Config{Users: testUsers}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		c.connect(10*time.Second, nil)
		if _, code := c.exists("/", false); code != zkproto.CodeOK {
			t.Fatal(code)
		}
		if err := s.SetUsers(t.Context(), Config{RequireAuth: []string{"sasl"}}); err == nil {
			t.Error("SetUsers accepted users that no client can be")
		}
		if _, code := c.exists("/", false); code != zkproto.CodeOK {
			t.Errorf("after a refused change: %v", code)
		}
		if err := s.SetUsers(t.Context(), Config{Users: map[string]string{"new": "password"}, RequireAuth: []string{"sasl"}}); err != nil {
			t.Fatal(err)
		}
		if _, code := c.exists("/", false); code == zkproto.CodeOK {
			t.Error("no authentication is required")
		}
		c = dial()
		c.connect(10*time.Second, nil)
		c.authSASL("new", "password")
		if _, code := c.exists("/", false); code != zkproto.CodeOK {
			t.Errorf("the new user: %v", code)
		}
	})
}

// As long as digest is not required, any password is right. Those that are no user's are closed when it is.
func TestSetUsersDemandsARightDigest(t *testing.T) {
	inBubble(t, Config{Users: testUsers, SuperDigest: login.Digest("super:test").ID}, func(t *testing.T, s *Server, dial func() *rawClient) {
		clients := make(map[string]*rawClient)
		for _, who := range []string{"bob:" + planted, "bob:wrong", "nobody:x", "super:test"} {
			c := dial()
			c.connect(10*time.Second, nil)
			c.auth("digest", who)
			clients[who] = c
		}
		if err := s.SetUsers(t.Context(), Config{Users: testUsers, SuperDigest: login.Digest("super:test").ID, RequireAuth: []string{"digest"}}); err != nil {
			t.Fatal(err)
		}
		for who, c := range clients {
			if who == "bob:wrong" || who == "nobody:x" {
				c.closed()
			} else if _, code := c.exists("/", false); code != zkproto.CodeOK {
				t.Errorf("%s: %v", who, code)
			}
		}
	})
}
