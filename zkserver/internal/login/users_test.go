package login

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"holdfast/zkserver/internal/tree"
)

// planted is a password that no error may show.
const planted = "pa55-planted"

var testUsers = map[string]string{"bob": planted, "eve": "eve-password"}

const superPassword = "super:test"

func newUsers(t testing.TB, passwords map[string]string, super string, require ...string) *Users {
	t.Helper()
	u, err := NewUsers(passwords, super, require)
	if err != nil {
		t.Fatal(err)
	}
	return &u
}

func TestUsersAreReadFromLines(t *testing.T) {
	text := "# who may come\nbob: a:b \r\n\nzoë:pass-ë"
	want := map[string]string{"bob": " a:b ", "zoë": "pass-ë"}
	if got, err := ParseUsers(text); err != nil || !maps.Equal(got, want) {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	for text, says := range map[string]string{
		planted:                             "line 1: no colon",
		"bob:" + planted + "\n\neve:":       `line 3: user "eve": the password is empty`,
		"# eve\n:" + planted:                "line 2: a user has no name",
		"bob:" + planted + "\nbob:x":        `line 2: user "bob" is listed twice`,
		"bob:" + planted + "\na@b@c:" + "x": `line 2: user "a@b@c": ACLs cannot name it`,
	} {
		if _, err := ParseUsers(text); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), planted) {
			t.Errorf("%q: %v; want %s", text, err, says)
		}
	}
}

func TestByDigest(t *testing.T) {
	super := Digest(superPassword)
	long := strings.Repeat("n", MaxIdentityBytes+1)
	for _, tt := range []struct {
		name    string
		require []string
		auth    string
		want    []tree.Identity // nil: refused
	}{
		{"anybody", nil, "any:thing", []tree.Identity{Digest("any:thing")}},
		{"no password", nil, "bob", []tree.Identity{Digest("bob")}},
		{"a user with any password, SASL required", []string{"sasl"}, "bob:x", []tree.Identity{Digest("bob:x")}},
		{"user, required", []string{"digest"}, "bob:" + planted, []tree.Identity{Digest("bob:" + planted)}},
		{"wrong password, required", []string{"digest"}, "bob:x", nil},
		{"no such user, required", []string{"digest"}, "nobody:", nil},
		{"no name, required", []string{"digest"}, "", nil},
		{"superuser", nil, superPassword, []tree.Identity{super, {Scheme: tree.Super}}},
		{"superuser, required", []string{"digest"}, superPassword, []tree.Identity{super, {Scheme: tree.Super}}},
		{"not the superuser's password", nil, superPassword + "x", []tree.Identity{Digest(superPassword + "x")}},
		{"long name, no hash", []string{"digest"}, long + ":x", []tree.Identity{{Scheme: "digest", ID: long}}},
	} {
		u := newUsers(t, testUsers, super.ID, tt.require...)
		if got, ok := u.ByDigest([]byte(tt.auth)); ok != (tt.want != nil) || ok && !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, %v; want %v", tt.name, got, ok, tt.want)
		}
	}
	if _, ok := Add(nil, tree.Identity{Scheme: "digest", ID: long}); ok {
		t.Error("a name beyond the limit was accepted")
	}
}

func TestAdmits(t *testing.T) {
	address := tree.Identity{Scheme: "ip", ID: "127.0.0.1"}
	for _, tt := range []struct {
		name    string
		require []string
		ids     []tree.Identity
		want    bool
	}{
		{"nothing required", nil, nil, true},
		{"nobody", []string{"sasl"}, nil, false},
		{"an address", []string{"digest", "sasl", "x509"}, []tree.Identity{address}, false},
		{"another scheme", []string{"sasl"}, []tree.Identity{address, Digest("bob:x")}, false},
		{"one of several", []string{"x509", "sasl"}, []tree.Identity{address, {Scheme: "sasl", ID: "bob"}}, true},
		{"the superuser", []string{"sasl"}, []tree.Identity{{Scheme: tree.Super}}, true},
	} {
		if got := newUsers(t, testUsers, "", tt.require...).Admits(tt.ids); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

func TestKnows(t *testing.T) {
	super := Digest(superPassword)
	old := newUsers(t, testUsers, super.ID, "digest")
	lax := newUsers(t, testUsers, super.ID)
	bob, bobByDigest := tree.Identity{Scheme: "sasl", ID: "bob"}, Digest("bob:"+planted)
	for _, tt := range []struct {
		name      string
		old       *Users
		passwords map[string]string
		super     string
		id        tree.Identity
		want      bool
	}{
		{"nothing changes", old, testUsers, super.ID, bob, true},
		{"user goes", old, map[string]string{"eve": "x"}, super.ID, bob, false},
		{"another password", old, map[string]string{"bob": "x"}, super.ID, bob, false},
		{"another user's password", old, map[string]string{"bob": planted, "eve": "x"}, super.ID, bob, true},
		{"user goes, by digest", old, nil, super.ID, bobByDigest, false},
		{"another password, by digest", old, map[string]string{"bob": "x"}, super.ID, bobByDigest, false},
		{"digest was not required, so it is no user's", lax, nil, super.ID, bobByDigest, true},
		{"superuser goes", old, testUsers, "", tree.Identity{Scheme: tree.Super}, false},
		{"another superuser", old, testUsers, Digest("super:x").ID, tree.Identity{Scheme: tree.Super}, false},
		{"superuser stays", old, nil, super.ID, tree.Identity{Scheme: tree.Super}, true},
		{"an address", old, nil, "", tree.Identity{Scheme: "ip", ID: "127.0.0.1"}, true},
	} {
		u := newUsers(t, tt.passwords, tt.super)
		if got := u.Knows([]tree.Identity{{Scheme: "x509", ID: "CN=x"}, tt.id}, tt.old); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// FuzzParseUsers checks that users that were parsed and written parse to the same users, and that no
// error shows a password.
func FuzzParseUsers(f *testing.F) {
	for _, s := range []string{"bob:secret", "# who\r\n\r\nbob: a:b \nann:x\n", "bob", ":x", "bob:", "bob:x\nbob:y", "\xff:x", "a:\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := ParseUsers(text + "\nbob:" + planted + "\x00\nann" + planted); err != nil && strings.Contains(err.Error(), planted) {
			t.Errorf("%q: %v", text, err)
		}
		users, err := ParseUsers(text)
		if err != nil {
			return
		}
		var b strings.Builder
		for name, password := range users {
			b.WriteString(name + ":" + password + "\r\n")
		}
		if again, err := ParseUsers(b.String()); err != nil || !maps.Equal(again, users) {
			t.Errorf("%q is %q; written as %q it is %q, %v", text, users, b.String(), again, err)
		}
	})
}
